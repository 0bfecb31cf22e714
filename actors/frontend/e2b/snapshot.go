package e2b

import (
	"context"
	"net/http"
	"os"
	"path/filepath"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
)

// snapshotObject is what a client is told of a snapshot.
type snapshotObject struct {
	SnapshotID string   `json:"snapshotID"`
	Names      []string `json:"names"`
}

func objectOf(one snapshot) snapshotObject {
	o := snapshotObject{SnapshotID: one.ID, Names: []string{}}
	if one.Name != "" {
		o.Names = append(o.Names, one.Name)
	}
	return o
}

// createSnapshot marks this point of a sandbox's history, and copies the folder.
func (s *Server) createSnapshot(w http.ResponseWriter, r *http.Request) error {
	sb, err := s.named(r)
	if err != nil {
		return err
	}
	var m struct {
		Name string `json:"name"`
	}
	if err := wire.Read(r, &m); err != nil {
		return err
	}
	if m.Name != "" && !wire.ValidName(m.Name) {
		return wire.Fail(http.StatusBadRequest, "name: %q is no name: letters, digits, '.', '_' and '-'", m.Name)
	}
	back, err := sb.take(r.Context())
	if err != nil {
		return err
	}
	defer back()
	one := snapshot{ID: wire.NewID(), Name: m.Name, Sandbox: sb.id, At: s.o.Clock.Now()}
	dir := filepath.Join(s.o.Root, snapshotsName, one.ID)
	if err := s.snap(r.Context(), sb, one, dir); err != nil {
		if rerr := removeTree(context.WithoutCancel(r.Context()), dir); rerr != nil {
			s.o.Logger.Warn("what is left of a snapshot", "component", "e2b", "path", dir, "err", rerr)
		}
		return err
	}
	wire.Answer(w, http.StatusCreated, objectOf(one))
	return nil
}

// snap makes a snapshot. As long as it is made, nothing new begins in the sandbox that could change the folder; a command that runs in a step is in its way.
func (s *Server) snap(ctx context.Context, sb *sandbox, one snapshot, dir string) error {
	_, p, gone := sb.look()
	if gone {
		return notFound(sb.id)
	}
	if !sb.gate.TryLock() {
		return wire.Fail(http.StatusConflict, "something begins in the sandbox just now: try again")
	}
	defer sb.gate.Unlock()
	if p != nil && !ended(p.live) {
		if _, err := p.live.Mark(ctx, api.MarkRequest{Name: "snapshot-" + one.ID}); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return frontend.Ours(err)
	}
	if err := s.copyFolder(ctx, filepath.Join(dir, homeName), sb.home()); err != nil {
		return err
	}
	return frontend.Ours(writeJSON(dir, fileName, one))
}

// listSnapshots lists a page of snapshots.
func (s *Server) listSnapshots(w http.ResponseWriter, r *http.Request) error {
	all, err := s.snapshots()
	if err != nil {
		return err
	}
	q := r.URL.Query()
	id, name := q.Get("sandboxID"), q.Get("name")
	return wire.Page(w, q, all, func(one snapshot) wire.Position { return wire.Position{At: one.At, ID: one.ID} }, func(one snapshot) (snapshotObject, bool) {
		return objectOf(one), (id == "" || one.Sandbox == id) && (name == "" || one.Name == name)
	})
}

// deleteSnapshot removes a snapshot. Sandboxes that were made of it stay.
func (s *Server) deleteSnapshot(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("template")
	all, err := s.snapshots()
	if err != nil {
		return err
	}
	s.copying.Lock() // who makes a sandbox of it has all of it, or nothing
	defer s.copying.Unlock()
	for _, one := range all {
		if one.ID == id || one.Name == id {
			dir := filepath.Join(s.o.Root, snapshotsName, one.ID)
			if err := os.Remove(filepath.Join(dir, fileName)); missing(err) {
				break // somebody else was first
			} else if err != nil { // it is none from now on
				return frontend.Ours(err)
			}
			return noContent(w, frontend.Ours(removeTree(context.WithoutCancel(r.Context()), dir)))
		}
	}
	return wire.Fail(http.StatusNotFound, "there is no such snapshot; folders that are templates are not removed here")
}
