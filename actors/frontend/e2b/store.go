package e2b

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// What lies below the root.
const (
	sandboxesName = "sandboxes" // ID/home and ID/metadata.json
	snapshotsName = "snapshots" // the same
	templatesName = "templates" // NAME: the folder itself
	homeName      = "home"
	fileName      = "metadata.json"
	lockName      = "lock"

	// maxMetadata is how long a file of a sandbox may be, in bytes.
	maxMetadata = 1 << 20
)

// snapshot is what the file of a snapshot says of it.
type snapshot struct {
	ID      string    `json:"id"`
	Name    string    `json:"name,omitempty"`
	Sandbox string    `json:"sandbox"`
	At      time.Time `json:"at"`
}

// takeUp takes the root, and the sandboxes that are there.
func (s *Server) takeUp() error {
	for _, name := range []string{sandboxesName, snapshotsName, templatesName} {
		if err := os.MkdirAll(filepath.Join(s.o.Root, name), 0o700); err != nil {
			return err
		}
	}
	lock, err := hostfs.LockFile(filepath.Join(s.o.Root, lockName), false)
	if errors.Is(err, hostfs.ErrLocked) {
		return fmt.Errorf("%s: another server has it: %w", s.o.Root, err)
	} else if err != nil {
		return err
	}
	s.lock = lock
	entries, err := os.ReadDir(filepath.Join(s.o.Root, sandboxesName))
	if err != nil {
		s.unlock()
		return err
	}
	for _, e := range entries {
		if !wire.IsID(e.Name()) {
			continue
		}
		sb := s.newSandbox(e.Name())
		err := readJSON(sb.dir, fileName, maxMetadata, &sb.meta)
		if err == nil && sb.meta.ID != sb.id {
			err = errors.New("it is of another sandbox")
		}
		if err != nil {
			if missing(err) { // its start was cut
				err = s.removeSandbox(context.Background(), sb)
			}
			if err != nil {
				s.o.Logger.Warn("a sandbox that cannot be taken up", "component", "e2b", "sandbox", sb.id, "err", err)
			}
			continue
		}
		s.sandboxes[sb.id] = sb
	}
	for _, sb := range s.list() {
		if m, _, _ := sb.look(); !m.Paused && m.OnTimeout != wire.OnTimeoutPause {
			sb.arm() // as if it had run all the time
		}
	}
	return nil
}

// unlock gives the root up.
func (s *Server) unlock() {
	if s.lock != nil {
		_ = s.lock.Close()
	}
}

func (s *Server) newSandbox(id string) *sandbox {
	return &sandbox{s: s, id: id, dir: filepath.Join(s.o.Root, sandboxesName, id), turn: make(chan struct{}, 1)}
}

// sandbox finds one; nil if there is none.
func (s *Server) sandbox(id string) *sandbox {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.sandboxes[id]
}

// list lists all, in no order.
func (s *Server) list() (all []*sandbox) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, sb := range s.sandboxes {
		all = append(all, sb)
	}
	return all
}

func (s *Server) forget(sb *sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sandboxes, sb.id)
}

// signed finds the sandbox whose token has signed an address.
func (s *Server) signed(r *http.Request) (*sandbox, error) {
	sig, err := signatureOf(r)
	if err != nil {
		return nil, err
	}
	var found *sandbox
	for _, sb := range s.list() {
		if m, _, gone := sb.look(); !gone && same(sig.given, sig.sign(m.Token)) {
			found = sb
		}
	}
	if found == nil {
		return nil, wire.Fail(http.StatusUnauthorized, "the signature of this address is wrong, or its sandbox has ended")
	}
	return found, nil
}

// writeJSON puts a file of ours in the place of the one that was there, whole or not at all. Only we may read it.
func writeJSON(dir, name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, name)
	f, err := os.OpenFile(file+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(file+".new", file)
	}
	return err
}

// readJSON reads one that has at most so many bytes.
func readJSON(dir, name string, most int64, into any) error {
	fd, err := hostfs.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer fd.Close()
	b, err := hostfs.ReadSmall(fd.FD(), name, most)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

// removeSandbox removes what there is of a sandbox that has no session. A server that ends meanwhile has made it one whose start was cut: the next one goes on ([Server.takeUp]).
func (s *Server) removeSandbox(ctx context.Context, sb *sandbox) error {
	if err := os.Remove(filepath.Join(sb.dir, fileName)); err != nil && !missing(err) {
		return frontend.Ours(err)
	}
	m, _, _ := sb.look()
	var err error
	if _, serr := os.Lstat(sb.home()); serr == nil && s.o.Forget != nil {
		err = s.o.Forget(ctx, sb.home(), m.UndoDir)
	}
	return frontend.Ours(errors.Join(err, removeTree(ctx, sb.dir)))
}

// removeTree removes a directory with all that is in it.
func removeTree(ctx context.Context, path string) error {
	parent, err := hostfs.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer parent.Close()
	return hostfs.RemoveAll(ctx, parent.FD(), filepath.Base(path), nil)
}

// copyFolder makes the folder dst, a copy of src; empty: an empty one.
func (s *Server) copyFolder(ctx context.Context, dst, src string) error {
	if err := os.Mkdir(dst, 0o755); err != nil {
		return frontend.Ours(err)
	}
	if src == "" {
		return nil
	}
	s.copying.Lock()
	defer s.copying.Unlock()
	from, err := hostfs.OpenRoot(src)
	if missing(err) {
		return wire.Fail(http.StatusNotFound, "the template has been removed")
	}
	if err != nil {
		return frontend.Ours(err)
	}
	defer from.Close()
	to, err := hostfs.OpenRoot(dst)
	if err != nil {
		return frontend.Ours(err)
	}
	defer to.Close()
	left, err := hostfs.CopyTree(ctx, to.FD(), from.FD())
	if left > 0 {
		s.o.Logger.Info("sockets and the like were left out of a copy", "component", "e2b", "from", src, "count", left)
	}
	return frontend.Ours(err)
}

// template finds the folder that a sandbox is to be a copy of: a template, or a snapshot, by its id or its name. Empty is an empty folder.
func (s *Server) template(name string) (dir string, err error) {
	name, _, _ = strings.Cut(name, ":") // a tag: there is one of each
	if !wire.ValidName(name) {
		return "", wire.Fail(http.StatusBadRequest, "templateID: %q is no name of a template: letters, digits, '.', '_' and '-'", name)
	}
	if dir, ok := s.o.Templates[name]; ok {
		return dir, nil
	}
	dir = filepath.Join(s.o.Root, templatesName, name)
	if st, err := os.Stat(dir); err == nil && st.IsDir() {
		return dir, nil
	}
	all, err := s.snapshots()
	if err != nil {
		return "", err
	}
	for _, one := range all { // the newest first
		if one.ID == name || one.Name == name {
			return filepath.Join(s.o.Root, snapshotsName, one.ID, homeName), nil
		}
	}
	if name == wire.BaseTemplate {
		return "", nil
	}
	return "", wire.Fail(http.StatusNotFound, "there is no template %q: make a directory of that name below %s in the server's directory, or start the server with --template %s=DIR", name, templatesName, name)
}

// snapshots lists them, the newest first.
func (s *Server) snapshots() ([]snapshot, error) {
	entries, err := os.ReadDir(filepath.Join(s.o.Root, snapshotsName))
	if err != nil {
		return nil, frontend.Ours(err)
	}
	var all []snapshot
	for _, e := range entries {
		var one snapshot
		if !wire.IsID(e.Name()) || readJSON(filepath.Join(s.o.Root, snapshotsName, e.Name()), fileName, maxMetadata, &one) != nil || one.ID != e.Name() {
			continue // it is being made, or removed
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b snapshot) int { return b.At.Compare(a.At) })
	return all, nil
}
