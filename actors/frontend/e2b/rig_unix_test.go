//go:build unix

package e2b

import (
	"os"
	"syscall"
)

func signalOf(st *os.ProcessState) int {
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return int(ws.Signal())
	}
	return 0
}
