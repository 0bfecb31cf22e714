package files

import (
	"fmt"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Bounds of a walk along a path, as the kernel has them for symlinks; the steps
// bound what symlinks with many ".." can cost.
const (
	maxLinks = 40
	maxSteps = 20_000
)

// resolver walks along a path, one name below a descriptor at a time, and
// follows symlinks itself: the kernel would not tell it of what is hidden.
// ".." goes back along the names walked, from the root again, so that nobody
// who moves a directory meanwhile can lead it out.
type resolver struct {
	f       *Folder
	pending []string // names to walk, the next one last
	names   []string // walked: no symlinks
	at      target   // its fd is -1: the root
	links   int
	steps   int
}

// resolve opens what rel, which is clean, leads to. A symlink at its end is
// followed.
func (f *Folder) resolve(rel string) (target, error) {
	parts, err := hostfs.SplitPath(rel)
	if err != nil {
		return target{}, err
	}
	r := &resolver{f: f, at: target{fd: -1}, steps: maxSteps + len(parts)}
	r.push(parts)
	for len(r.pending) > 0 && err == nil {
		err = r.step()
	}
	if err == nil && r.at.fd < 0 {
		if r.at.fd, err = hostfs.OpenSelf(f.root.FD(), posix.O_PATH); err == nil {
			r.at.st, err = hostfs.StatFD(r.at.fd)
		}
	}
	if err != nil {
		r.restart()
		return target{}, err
	}
	if r.at.real = strings.Join(r.names, "/"); r.at.real == "" {
		r.at.real = "."
	}
	return r.at, nil
}

func (r *resolver) push(parts []string) {
	for i := len(parts) - 1; i >= 0; i-- {
		if parts[i] != "" && parts[i] != "." {
			r.pending = append(r.pending, parts[i])
		}
	}
}

// restart goes back to the root.
func (r *resolver) restart() {
	if r.at.fd >= 0 {
		r.at.close()
	}
	r.at, r.names = target{fd: -1}, nil
}

func (r *resolver) dir() (fd int, id hostfs.ID) {
	if r.at.fd < 0 {
		return r.f.root.FD(), r.f.root.ID()
	}
	return r.at.fd, r.at.st.ID
}

// step walks one name.
func (r *resolver) step() error {
	name := r.pending[len(r.pending)-1]
	r.pending = r.pending[:len(r.pending)-1]
	if r.steps--; r.steps < 0 {
		return posix.ELOOP
	}
	if name == ".." {
		if len(r.names) == 0 {
			return fmt.Errorf("%w: a symlink leads there", ErrOutside)
		}
		back := r.names[:len(r.names)-1]
		r.restart()
		r.push(back)
		return nil
	}
	dirfd, id := r.dir()
	if r.f.hidden.Entry(id, name, func() (string, bool) { return strings.Join(r.names, "/"), true }) {
		return posix.EACCES
	}
	fd, err := hostfs.OpenAt(dirfd, name, posix.O_PATH, 0)
	if err != nil {
		return err
	}
	next := target{fd: fd}
	next.st, err = hostfs.StatFD(fd)
	switch {
	case err != nil:
	case r.f.hidden.Inode(next.st.ID):
		err = posix.EACCES
	case next.st.IsSymlink():
		next.close()
		return r.follow(dirfd, name)
	case len(r.pending) > 0 && !next.st.IsDir():
		err = posix.ENOTDIR
	}
	if err != nil {
		next.close()
		return err
	}
	if r.at.fd >= 0 {
		r.at.close()
	}
	r.at, r.names = next, append(r.names, name)
	return nil
}

// follow puts a symlink's target in the place of its name.
func (r *resolver) follow(dirfd int, name string) error {
	if r.links++; r.links > maxLinks {
		return posix.ELOOP
	}
	text, err := hostfs.ReadlinkAt(dirfd, name)
	if err != nil {
		return err
	}
	if strings.HasPrefix(text, "/") {
		below, ok := strings.CutPrefix(text+"/", r.f.root.Path()+"/")
		if !ok {
			return fmt.Errorf("%w: a symlink leads to %q", ErrOutside, text)
		}
		r.restart()
		text = below
	}
	r.push(strings.Split(text, "/"))
	return nil
}
