package ui

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// folder is a working folder as the page gets it.
type folder struct {
	ID      string             `json:"id"`
	Path    string             `json:"path"`
	Label   string             `json:"label,omitempty"`
	Session string             `json:"session"` // empty: none has it open
	Write   bool               `json:"writable"`
	Problem string             `json:"problem,omitempty"`
	UndoDir string             `json:"undo_dir,omitempty"`
	Log     *undolog.LogStatus `json:"log,omitempty"` // nil: not known without opening it

	dir api.Directory
}

// folderID names a folder in addresses.
func folderID(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:8])
}

// liveSession is a session as the page gets it.
type liveSession struct {
	api.Status
	Socket string `json:"socket"`
}

// patience bounds how long one session may take to say how it is.
const patience = 5 * time.Second

// overview is all that there is to look at.
func (s *Server) overview(r *http.Request) (any, error) {
	folders, err := s.folders()
	if err != nil {
		return nil, err
	}
	list, err := s.o.Sources.Sessions()
	if err != nil {
		return nil, err
	}
	sessions := make([]liveSession, len(list))
	var asked sync.WaitGroup
	for i, info := range list {
		asked.Go(func() { sessions[i] = s.ask(r.Context(), info) })
	}
	asked.Wait()
	for i := range folders {
		for _, live := range sessions {
			for _, d := range live.Directories {
				if d.Path == folders[i].Path {
					folders[i].Log, folders[i].Problem, folders[i].Write = &d.Log, d.Problem, d.Access != "read_only"
				}
			}
		}
	}
	return map[string]any{"version": s.o.Version, "user": s.o.User, "sessions": sessions, "folders": folders, "features": []string{"content"}}, nil
}

// ask asks a session how it is. One that does not answer is shown as such.
func (s *Server) ask(ctx context.Context, info api.SessionInfo) liveSession {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	silent := liveSession{Status: api.Status{Session: info.Session, PID: info.PID, State: "silent", Directories: []api.DirectoryStatus{}}, Socket: info.Socket}
	c, err := s.o.Sources.Dial(ctx, info)
	if err != nil {
		return silent
	}
	defer func() { _ = c.Close(ctx) }()
	st, err := c.Status(ctx)
	if err != nil {
		return silent
	}
	return liveSession{Status: st, Socket: info.Socket}
}

// folders lists the folders with a session, then those that have only a history.
func (s *Server) folders() ([]folder, error) {
	list, err := s.o.Sources.Sessions()
	if err != nil {
		return nil, err
	}
	out := []folder{}
	seen := map[string]bool{}
	for _, info := range list {
		for i, path := range info.Directories {
			if seen[path] {
				continue
			}
			seen[path] = true
			f := folder{ID: folderID(path), Path: path, Session: info.Session, Write: true, dir: api.Directory{Path: path}}
			if i < len(info.Labels) {
				f.Label = info.Labels[i]
			}
			out = append(out, f)
		}
	}
	old, err := s.o.Sources.Histories()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(old, func(a, b api.Directory) int { return cmp.Compare(a.Path, b.Path) })
	for _, d := range old {
		if seen[d.Path] {
			for i := range out {
				if out[i].Path == d.Path {
					out[i].UndoDir, out[i].dir = d.UndoDir, d
				}
			}
			continue
		}
		seen[d.Path] = true
		out = append(out, folder{ID: folderID(d.Path), Path: d.Path, Label: d.Label, Write: true, UndoDir: d.UndoDir, dir: d})
	}
	return out, nil
}

// folder finds a folder by its id.
func (s *Server) folder(id string) (folder, error) {
	list, err := s.folders()
	if err != nil {
		return folder{}, err
	}
	for _, f := range list {
		if f.ID == id {
			return f, nil
		}
	}
	return folder{}, &problem{http.StatusNotFound, "unknown_directory", "no session has this folder, and it has no history", "it may have been removed meanwhile"}
}

// open answers for the folder of a request. Close the service.
func (s *Server) open(r *http.Request) (folder, api.Service, error) {
	f, err := s.folder(r.PathValue("folder"))
	if err != nil {
		return f, nil, err
	}
	if f.Session != "" {
		if c, err := s.session(r, f.Session); err == nil {
			return f, c, nil
		} // it has ended just now
	}
	release, err := s.alone(r.Context(), f.ID)
	if err != nil {
		return f, nil, err
	}
	c, err := s.o.Sources.Open(r.Context(), f.dir)
	if err != nil {
		release()
		return f, nil, err
	}
	s.opened.Store(r, release)
	return f, c, nil
}

// alone waits until no other request has the folder's log, which only one can have, and keeps it until release is called. A page
// asks for several things at once, of which some take long.
func (s *Server) alone(ctx context.Context, id string) (release func(), err error) {
	slot := s.slot("log of " + id)
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// turn keeps apart what changes a folder.
func (s *Server) turn(id string) func() {
	slot := s.slot("turn of " + id)
	slot <- struct{}{}
	return func() { <-slot }
}

// slot is what one request at a time puts something into, and takes it out again: for each name.
func (s *Server) slot(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.slots[name]
	if slot == nil {
		slot = make(chan struct{}, 1)
		s.slots[name] = slot
	}
	return slot
}

// session connects to a live session. Close it.
func (s *Server) session(r *http.Request, id string) (Session, error) {
	list, err := s.o.Sources.Sessions()
	if err != nil {
		return nil, err
	}
	for _, info := range list {
		if info.Session == id {
			return s.o.Sources.Dial(r.Context(), info)
		}
	}
	return nil, &problem{http.StatusNotFound, "session_ended", "that session has ended", ""}
}

// holds tells whether a step has to do with a text: its commands or a path.
func holds(e *undolog.Entry, text string) bool {
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	if has(e.Command) || slices.ContainsFunc(e.AffectedPaths, has) {
		return true
	}
	return slices.ContainsFunc(e.Commands, func(c undolog.StepCommand) bool { return has(c.Command) })
}
