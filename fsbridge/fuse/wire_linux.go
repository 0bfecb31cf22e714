package fuse

import (
	"encoding/binary"
	"strings"
)

// notification starts a message to the kernel that answers no request: the
// header has the code in place of the error and no request's number.
func notification(code int32, body int) []byte {
	b := make([]byte, 16, 16+body)
	binary.NativeEndian.PutUint32(b, uint32(16+body))
	binary.NativeEndian.PutUint32(b[4:], uint32(code))
	return b
}

// word appends a 64-bit number as this machine writes it.
func word(b []byte, v uint64) []byte { return binary.NativeEndian.AppendUint64(b, v) }

// splitLast splits a relative path into directory and last component.
func splitLast(path string) (dir, name string) {
	if path == "." || path == "" {
		return "", ""
	}
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}
