package vfs

import (
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// openPart is a part of an open file that is read later. It has a reference until Done.
type openPart struct {
	fd   int
	file interface{ Release() }
	off  int64
	size int
}

// NewPart makes the part of size bytes from off on. It takes over the caller's
// reference.
func (f *openFile[N]) NewPart(off int64, size int) openPart { return openPart{f.FD, f, off, size} }

// Descriptor returns the file's descriptor, which is open until Done, and which part
// of the file is to be read.
func (p *openPart) Descriptor() (fd int, off int64, size int) { return p.fd, p.off, p.size }

// Read fills the pieces of dst, as far as the part goes.
func (p *openPart) Read(dst ...[]byte) (int, error) {
	total := 0
	for _, b := range dst {
		b = b[:min(len(b), p.size-total)]
		n, err := hostfs.PreadFull(p.fd, b, p.off+int64(total))
		total += n
		if err != nil || n < len(b) || total == p.size {
			return total, err
		}
	}
	return total, nil
}

// Done gives the file back.
func (p *openPart) Done() { p.file.Release() }
