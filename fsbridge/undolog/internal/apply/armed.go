package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
)

// setMetaInPlace is [layer.SetMeta] for the inode behind fd (O_PATH), which is in the folder. A regular file that somebody can write
// to does not get setuid or setgid back: a process inside that has it open, or mapped, would put its own code into a program that
// runs with the owner's rights. The mode is refused then ([layer.RefusedError]), the rest is done.
func (e *Engine) setMetaInPlace(fd int, m *format.Meta, xattrs []hostfs.Xattr, has bool) error {
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	if !fsbridge.GivesAway(m.Mode &^ (st.Mode & fsbridge.Privileged)) {
		return layer.SetMeta(fd, m, xattrs, has)
	}
	less := *m
	less.Mode &^= fsbridge.Privileged
	if err := layer.SetMeta(fd, &less, xattrs, has); err != nil {
		return err
	}
	if err := writtenBy(fd); err != nil {
		return &layer.RefusedError{Parts: []layer.RefusedPart{{What: "mode", Err: err}}}
	}
	return layer.SetMeta(fd, m, nil, false)
}

// closeWithin is how long a file may need to be closed: a FUSE client tells its server of it in its own time.
const closeWithin = 2 * time.Second

// writtenBy is an error if somebody may be able to write to the file behind fd (O_PATH).
func writtenBy(fd int) error {
	r, err := hostfs.ReopenFD(fd, posix.O_RDONLY|posix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer hostfs.Close(r)
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	for {
		written, known := hostfs.Written(r)
		switch {
		case !written:
			return nil
		case !known:
			return fmt.Errorf("the file system does not say whether a process has the file open for writing: %w", posix.EOPNOTSUPP)
		}
		select {
		case <-ctx.Done():
			return errors.Join(errOpenForWriting, posix.ETXTBSY)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

var errOpenForWriting = errors.New("a process has it open for writing, and whoever runs it would have its owner's rights")
