package apply

import (
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
)

// point is passed before a change in the folder: it renews the sign of life, and tests stop the apply here.
func (e *Engine) point(name string) error {
	e.Sign.Mark()
	return fault.Point(name)
}

// doing runs f, which changes the inode of that number and may take long.
func (e *Engine) doing(ino uint64, f func() error) error {
	e.Sign.Mark()
	e.Sign.Doing(ino)
	err := f()
	e.Sign.Mark()
	e.Sign.Doing(0)
	return err
}
