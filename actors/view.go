package actors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/directory"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/paths"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/messages/lexical"
)

// viewed bounds what is under way for [api.Viewer].
type viewed struct{ calls, watches atomic.Int32 }

// enter takes a place; leave gives it back.
func (v *viewed) enter(n *atomic.Int32, most int32) (leave func(), err error) {
	if n.Add(1) > most {
		n.Add(-1)
		return nil, fmt.Errorf("%w: %d calls look at files inside already; try again when one has ended", messages.ErrBusy, most)
	}
	return func() { n.Add(-1) }, nil
}

// maxPath is how long a path may be, in bytes: Linux takes no longer ones.
const maxPath = 4095

// inside is a path as the program inside takes it.
func insidePath(op, p string) (paths.Text, error) {
	switch {
	case !path.IsAbs(p) || strings.IndexByte(p, 0) >= 0:
		return "", &fs.PathError{Op: op, Path: p, Err: fs.ErrInvalid}
	case len(p) > maxPath:
		return "", &fs.PathError{Op: op, Path: p, Err: syscall.ENAMETOOLONG}
	}
	return paths.Text(path.Clean(p)), nil
}

// caller starts the program inside.
func (s *Session) caller() *paths.Caller {
	return &paths.Caller{Exec: s.startCommand, Number: func() int64 { return s.commands.Add(1) }}
}

// device is that of the working folder in which a path lies by its text, for files that the program inside lends us; 0: they are not lent. Only where it is a process of this host can it. What we would do with the files is not held
// to what is read and written inside, so that no limits of that may be set.
func (s *Session) device(p paths.Text) uint64 {
	w := s.folderOf(string(p))
	if _, here := s.slot.Guest().(hypervisor.Housed); w == nil || !here || s.cfg.Resources.IO > 0 || s.cfg.Resources.FileBytes > 0 {
		return 0
	}
	return paths.DeviceOf(w.Root.FD())
}

// within is an [api.ErrOutside] if a path that was asked for leads out of dir.
func within(op, asked, dir string, real paths.Text) error {
	if dir == "" || lexical.Within(string(real), hypervisor.GuestPath(dir)) {
		return nil
	}
	return &fs.PathError{Op: op, Path: asked, Err: api.ErrOutside}
}

// look asks for what changes nothing.
func (s *Session) look(ctx context.Context, r paths.Request, h paths.Handlers) (paths.Reply, error) {
	asked := string(r.Path)
	if s.cfg.Runtime == nil {
		return paths.Reply{}, messages.ErrNoMachine
	}
	var err error
	if r.Path, err = insidePath(r.Op, asked); err != nil {
		return paths.Reply{}, err
	}
	n, most := &s.viewed.calls, int32(api.ViewAtOnce)
	if r.Op == paths.OpWatch {
		n, most = &s.viewed.watches, api.ViewWatches
	}
	leave, err := s.viewed.enter(n, most)
	if err != nil {
		return paths.Reply{}, err
	}
	defer leave()
	reply, err := s.caller().Do(ctx, r, h, nil)
	return reply, viewError(r.Op, asked, err)
}

// viewError is an error of the program inside as [api.Viewer] has it.
func viewError(op, asked string, err error) error {
	var errno syscall.Errno
	switch {
	case errors.Is(err, paths.ErrIrregular):
		err = api.ErrNotRegular
	case errors.Is(err, syscall.E2BIG):
		err = fmt.Errorf("%w: more than %d directories; watch a smaller tree", api.ErrTooLarge, api.ViewWatched)
	case errors.As(err, &errno), errors.Is(err, fs.ErrInvalid):
	default:
		return err
	}
	if _, is := errors.AsType[*fs.PathError](err); is {
		return err
	}
	return &fs.PathError{Op: op, Path: asked, Err: err}
}

// pathInfo is a description from inside; p is the path that it is of.
func pathInfo(p string, i *paths.Info) api.PathInfo {
	if i == nil {
		return api.PathInfo{Path: p}
	}
	return api.PathInfo{
		Path: p, Type: i.Type, Size: i.Size, Mode: i.Mode, UID: i.UID, GID: i.GID, Owner: string(i.Owner), Group: string(i.Group),
		ModTime: time.Unix(0, i.MTimeNS), Target: string(i.Target), TargetType: i.TargetType,
	}
}

// StatPath implements [api.Viewer].
func (s *Session) StatPath(ctx context.Context, r api.PathRequest) (api.PathInfo, error) {
	reply, err := s.look(ctx, paths.Request{Op: paths.OpStat, Path: paths.Text(r.Path), Follow: r.Follow}, paths.Handlers{})
	if err == nil {
		err = within(paths.OpStat, r.Path, r.Within, reply.Real)
	}
	if err != nil {
		return api.PathInfo{}, err
	}
	return pathInfo(path.Clean(r.Path), reply.Info), nil
}

// ListPath implements [api.Viewer].
func (s *Session) ListPath(ctx context.Context, r api.ListPathRequest) (api.PathListing, error) {
	limit := r.Limit
	if limit <= 0 || limit > api.ViewEntries {
		limit = api.ViewEntries
	}
	out, top := api.PathListing{}, path.Clean(r.Path)
	reply, err := s.look(ctx, paths.Request{Op: paths.OpList, Path: paths.Text(r.Path), Depth: min(max(r.Depth, 1), api.ViewDepth), Limit: limit}, paths.Handlers{
		Entries: func(list []paths.Info) error {
			for _, i := range list {
				if len(out.Entries) >= limit {
					return fmt.Errorf("%w: more entries than were asked for", paths.ErrGuest)
				}
				out.Entries = append(out.Entries, pathInfo(path.Join(top, string(i.Path)), &i))
			}
			return nil
		},
	})
	if err == nil {
		err = within(paths.OpList, r.Path, r.Within, reply.Real)
	}
	if err != nil {
		return api.PathListing{}, err
	}
	out.Truncated = reply.Truncated
	return out, nil
}

// ReadPath implements [api.Viewer].
func (s *Session) ReadPath(ctx context.Context, r api.ReadPathRequest, out io.Writer) error {
	if r.Offset < 0 || r.Limit < 0 {
		return &fs.PathError{Op: paths.OpRead, Path: r.Path, Err: fs.ErrInvalid}
	}
	clean := path.Clean(r.Path)
	q := paths.Request{Op: paths.OpRead, Path: paths.Text(r.Path), Offset: r.Offset, Length: r.Limit}
	to := &extent{out: out}
	var lent *os.File
	_, err := s.look(ctx, q, paths.Handlers{
		Data: to, Device: s.device(paths.Text(clean)), Lent: func(f *os.File) { lent = f },
		Ready: func(reply paths.Reply) error {
			if reply.Info == nil {
				return fmt.Errorf("%w: it does not say what file it is", paths.ErrGuest)
			}
			to.left, to.all = q.Extent(reply.Info.Size)
			if err := within(paths.OpRead, r.Path, r.Within, reply.Real); err != nil || r.Open == nil {
				return err
			}
			return r.Open(pathInfo(clean, reply.Info))
		},
	})
	if lent != nil {
		defer lent.Close()
		if err == nil {
			err = to.copy(ctx, lent, r.Offset)
		}
	}
	if err == nil && !to.all && to.left > 0 {
		err = &fs.PathError{Op: paths.OpRead, Path: r.Path, Err: fmt.Errorf("%w: it has become shorter meanwhile", io.ErrUnexpectedEOF)}
	}
	return err
}

// extent passes on as much of a file as was said there would be.
type extent struct {
	out  io.Writer
	left int64
	all  bool // there is no saying
}

func (e *extent) Write(b []byte) (int, error) {
	if !e.all && int64(len(b)) > e.left {
		return 0, fmt.Errorf("%w: more than was asked for", paths.ErrGuest)
	}
	e.left -= int64(len(b))
	return e.out.Write(b)
}

// lentPiece is how much of a file that was lent to us is copied before it is looked whether somebody still wants it, in bytes.
const lentPiece = 4 << 20

// copy passes on a file itself: where out can take files, the kernel does it without us.
func (e *extent) copy(ctx context.Context, f *os.File, offset int64) error {
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	for e.left > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := io.CopyN(e.out, f, min(e.left, lentPiece))
		e.left -= n
		if errors.Is(err, io.EOF) {
			return nil // it is too short
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// WatchPath implements [api.Viewer].
func (s *Session) WatchPath(ctx context.Context, r api.WatchPathRequest, emit func(api.PathEvent) error) error {
	_, err := s.look(ctx, paths.Request{Op: paths.OpWatch, Path: paths.Text(r.Path), Recursive: r.Recursive, Limit: api.ViewWatched}, paths.Handlers{
		Ready: func(paths.Reply) error {
			if r.Ready != nil {
				r.Ready()
			}
			return nil
		},
		Events: func(list []paths.Event) error {
			for _, e := range list {
				if err := emit(api.PathEvent{Type: e.Type, Path: string(e.Path)}); err != nil {
					return err
				}
			}
			return nil
		},
	})
	return err
}

// folderOf is the working folder that a path inside, without symlinks, lies in; nil: it lies in none.
func (s *Session) folderOf(real string) *directory.Directory {
	i := slices.IndexFunc(s.dirs, func(w *directory.Directory) bool {
		return lexical.Within(real, hypervisor.GuestPath(w.Config.Path))
	})
	if i < 0 {
		return nil
	}
	return s.dirs[i]
}
