package ui

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// by is how the audit names this frontend.
const by = "ui"

// undoRequest is what the page asks for. It names the steps that it has shown, so that
// nothing else is undone.
type undoRequest struct {
	Count  int              `json:"count,omitempty"`
	Group  undolog.StepID   `json:"group,omitempty"`
	To     string           `json:"to,omitempty"`
	Expect []undolog.StepID `json:"expect,omitempty"`
	Force  bool             `json:"force,omitempty"`
	DryRun bool             `json:"dry_run,omitempty"`
}

// patienceForTurn is how long an undo waits while a command runs.
const patienceForTurn = 10 * time.Second

type travel func(Sources, context.Context, api.Service, api.Directory, api.UndoRequest) (api.UndoResult, error)

// undo undoes or redoes steps. Without a dry run the page has to name them, as a dry run has
// listed them.
func (s *Server) undo(do travel) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		var in undoRequest
		if err := decode(r, &in); err != nil {
			return nil, err
		}
		if !in.DryRun && in.Expect == nil {
			return nil, &problem{http.StatusBadRequest, "invalid_field", "expect has to name the steps", "ask with dry_run first"}
		}
		defer s.turn(r.PathValue("folder"))()
		f, c, err := s.open(r)
		if err != nil {
			return nil, err
		}
		defer s.shut(r, c)
		ask := api.UndoRequest{Directory: f.Path, Count: in.Count, Group: in.Group, To: in.To, Force: in.Force, DryRun: true}
		if ask.Count <= 0 && ask.Group == 0 && ask.To == "" {
			ask.Count = 1
		}
		res, err := do(s.o.Sources, r.Context(), c, f.dir, ask)
		if in.DryRun {
			return res, err
		}
		if err == nil && !slices.Equal(stepsOf(res), in.Expect) {
			err = &problem{http.StatusConflict, "changed", "these are not the steps any more that would be next", "look at the history as it is now"}
		}
		if err != nil {
			return nil, err
		}
		ask.DryRun, ask.Wait = false, patienceForTurn
		// What has begun is not cut short when the page leaves.
		res, err = do(s.o.Sources, context.WithoutCancel(r.Context()), c, f.dir, ask)
		s.hub.tell(change{What: "history", Folder: f.ID}, change{What: "status"})
		return res, err
	}
}

func stepsOf(res api.UndoResult) []undolog.StepID {
	ids := make([]undolog.StepID, len(res.Steps))
	for i, e := range res.Steps {
		ids[i] = e.StepID
	}
	return ids
}

// restore puts one path back.
func (s *Server) restore(r *http.Request) (any, error) {
	var in struct {
		Path   string         `json:"path"`
		Step   undolog.StepID `json:"step"`
		Force  bool           `json:"force,omitempty"`
		DryRun bool           `json:"dry_run,omitempty"`
	}
	if err := decode(r, &in); err != nil {
		return nil, err
	}
	path, err := asPath(in.Path)
	if err != nil {
		return nil, err
	}
	return s.changing(r, func(ctx context.Context, f folder, c api.Service) (any, error) {
		return c.Restore(ctx, api.RestoreRequest{
			Directory: f.Path, Path: path, Step: in.Step, Force: in.Force, DryRun: in.DryRun, Origin: api.Origin{Frontend: by},
		})
	})
}

// mark names a point of the history, or takes the name away.
func (s *Server) mark(r *http.Request) (any, error) {
	var in struct {
		Name   string `json:"name"`
		Delete bool   `json:"delete,omitempty"`
	}
	if err := decode(r, &in); err != nil {
		return nil, err
	}
	return s.changing(r, func(ctx context.Context, f folder, c api.Service) (any, error) {
		marks, err := s.o.Sources.Mark(ctx, c, f.dir, api.MarkRequest{Directory: f.Path, Name: in.Name, Delete: in.Delete})
		return map[string]any{"marks": api.OrEmpty(marks)}, err
	})
}

// gc keeps house in a folder's log.
func (s *Server) gc(r *http.Request) (any, error) {
	var in struct {
		CompressAll bool `json:"compress_all,omitempty"`
	}
	if err := decode(r, &in); err != nil {
		return nil, err
	}
	return s.changing(r, func(ctx context.Context, f folder, c api.Service) (any, error) {
		return c.GC(ctx, api.GCRequest{Directory: f.Path, CompressAll: in.CompressAll})
	})
}

// changing runs what changes a folder, in its turn, to its end.
func (s *Server) changing(r *http.Request, do func(context.Context, folder, api.Service) (any, error)) (any, error) {
	defer s.turn(r.PathValue("folder"))()
	f, c, err := s.open(r)
	if err != nil {
		return nil, err
	}
	defer s.shut(r, c)
	v, err := do(context.WithoutCancel(r.Context()), f, c)
	s.hub.tell(change{What: "history", Folder: f.ID})
	return v, err
}

// pending is what waits for a decision, and where.
type pending struct {
	api.Pending
	Session string `json:"session"`
	Folder  string `json:"folder"`
	// Scopes are where an answer can be kept; none: it is for what waits.
	Scopes []string `json:"scopes,omitempty"`
}

// scopes are those of answers that can be kept.
func scopes(kind string) []string {
	if !messages.Lasting(kind) {
		return nil
	}
	return []string{"once", "session", "project", "user"}
}

// mostDecisions is how many lines of the audit a page gets.
const mostDecisions = 200

// decisions are what waits in all sessions, and what was decided last.
func (s *Server) decisions(r *http.Request) (any, error) {
	list, err := s.o.Sources.Sessions()
	if err != nil {
		return nil, err
	}
	waiting := []pending{}
	for _, info := range list {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		c, err := s.o.Sources.Dial(ctx, info)
		if err == nil {
			var held []api.Pending
			if held, err = c.Pending(ctx); err == nil {
				for _, p := range held {
					waiting = append(waiting, pending{p, info.Session, folderID(p.Directory), scopes(p.Kind)})
				}
			}
			_ = c.Close(ctx)
		}
		cancel()
		if err != nil {
			s.o.Logger.Debug("session does not answer", "component", "ui", "session", info.Session, "err", err)
		}
	}
	slices.SortStableFunc(waiting, func(a, b pending) int { return a.Since.Compare(b.Since) })
	recent, err := s.recent()
	if err != nil {
		return nil, err
	}
	return map[string]any{"pending": waiting, "recent": recent}, nil
}

// recent are the newest decisions of all folders, newest first.
func (s *Server) recent() ([]json.RawMessage, error) {
	folders, err := s.folders()
	if err != nil {
		return nil, err
	}
	type line struct {
		at  time.Time
		raw json.RawMessage
	}
	var lines []line
	for _, f := range folders {
		found, err := s.o.Sources.Decisions(f.dir, mostDecisions)
		if err != nil {
			s.o.Logger.Debug("decisions", "component", "ui", "folder", f.Path, "err", err)
			continue
		}
		for _, raw := range found {
			var l struct {
				At time.Time `json:"at"`
			}
			if json.Unmarshal(raw, &l) == nil {
				lines = append(lines, line{l.At, raw})
			}
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return b.at.Compare(a.at) })
	out := []json.RawMessage{}
	for _, l := range lines[:min(len(lines), mostDecisions)] {
		out = append(out, l.raw)
	}
	return out, nil
}

// decide decides what waits. The first decision stands.
func (s *Server) decide(r *http.Request) (any, error) {
	var in struct {
		Allow bool   `json:"allow"`
		Scope string `json:"scope,omitempty"`
		For   string `json:"for,omitempty"` // as "8h"
	}
	if err := decode(r, &in); err != nil {
		return nil, err
	}
	var limit time.Duration
	if in.For != "" {
		var err error
		if limit, err = time.ParseDuration(in.For); err != nil || limit <= 0 {
			return nil, &problem{http.StatusBadRequest, "invalid_field", "for is no time like 8h", ""}
		}
	}
	c, err := s.session(r, r.PathValue("session"))
	if err != nil {
		return nil, err
	}
	defer s.shut(r, c)
	err = c.Decide(r.Context(), api.DecideRequest{ID: r.PathValue("id"), Allow: in.Allow, By: by, Scope: in.Scope, For: limit})
	s.hub.tell(change{What: "decisions", Session: r.PathValue("session")})
	return nil, err
}
