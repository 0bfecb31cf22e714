//go:build linux && !amd64

package mediate

// addOld adds nothing: see table_linux_amd64.go.
func addOld(*[maxSyscall]handler) {}
