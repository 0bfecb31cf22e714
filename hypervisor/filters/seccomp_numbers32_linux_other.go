//go:build linux && !amd64

package filters

// numbers32 is empty: programs of 32 bits are judged on amd64 alone.
var numbers32 [0]number
