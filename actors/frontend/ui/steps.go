package ui

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

const (
	pageSize = 200     // entries of an answer, if the page asks for no number
	maxPage  = 1000    // entries of an answer
	maxDiff  = 2 << 20 // bytes of a diff, if the page does not ask for all
	maxShown = 500     // steps that a file's history looks into one by one
)

// history is a part of a folder's history, newest first.
func (s *Server) history(r *http.Request) (any, error) {
	limit, err := number(r, "limit", pageSize, maxPage)
	if err != nil {
		return nil, err
	}
	before, err := number(r, "before", 1<<63, 1<<63)
	if err != nil {
		return nil, err
	}
	f, c, err := s.open(r)
	if err != nil {
		return nil, err
	}
	defer s.shut(r, c)
	text := strings.ToLower(r.URL.Query().Get("q"))
	ask := api.HistoryRequest{Directory: f.Path, Undone: true}
	if text == "" && before == 1<<63 {
		ask.Limit = int(limit) + 1 // after each step the page asks for the newest
	}
	all, err := c.History(r.Context(), ask)
	if err != nil {
		return nil, err
	}
	marks, err := c.Mark(r.Context(), api.MarkRequest{Directory: f.Path})
	if err != nil {
		marks = nil // while a command runs nobody can ask
	}
	n := 0
	for n < len(all) && all[n].Undone {
		n++
	}
	undone, all := all[:n], all[n:]
	entries, more := []undolog.Entry{}, false
	for i := range all {
		if all[i].Seq >= before || text != "" && !holds(&all[i], text) {
			continue
		}
		if more = len(entries) == int(limit); more {
			break
		}
		entries = append(entries, all[i])
	}
	answer := map[string]any{"entries": entries, "more": more, "total": len(all), "marks": api.OrEmpty(marks), "undone": api.OrEmpty(undone), "open": nil}
	if ask.Limit > 0 {
		answer["services"] = services(r.Context(), c)
	}
	st, err := c.Status(r.Context())
	if err != nil {
		return answer, nil
	}
	if st.OpenStep != nil {
		answer["open"] = map[string]any{"step": *st.OpenStep, "commands": api.OrEmpty(st.Running)}
	}
	for _, d := range st.Directories {
		if d.Path != f.Path {
			continue
		}
		answer["total"] = max(len(all), d.Log.Steps)
	}
	return answer, nil
}

// services are the session's, if there is one that has any.
func services(ctx context.Context, c api.Service) []api.ServiceStatus {
	s, ok := c.(api.Services)
	if !ok {
		return []api.ServiceStatus{}
	}
	list, err := s.Services(ctx)
	if err != nil {
		list = nil // it has no machine, or is of an older version
	}
	return api.OrEmpty(list)
}

// stepOf reads the step of a request.
func stepOf(r *http.Request) (undolog.StepID, error) {
	n, err := strconv.ParseInt(r.PathValue("step"), 10, 64)
	if err != nil || n <= 0 {
		return 0, &problem{http.StatusBadRequest, "invalid_field", "that is no step's number", ""}
	}
	return undolog.StepID(n), nil
}

// step is one step with a part of its paths.
func (s *Server) step(r *http.Request) (any, error) {
	limit, err := number(r, "limit", pageSize, maxPage)
	if err != nil {
		return nil, err
	}
	offset, err := number(r, "offset", 0, 1<<40)
	if err != nil {
		return nil, err
	}
	id, f, c, err := s.openStep(r)
	if err != nil {
		return nil, err
	}
	defer s.shut(r, c)
	d, err := c.Show(r.Context(), api.StepRequest{Directory: f.Path, Step: id})
	if err != nil {
		return nil, err
	}
	paths := d.Paths
	if text := strings.ToLower(r.URL.Query().Get("q")); text != "" {
		paths = slices.DeleteFunc(slices.Clone(paths), func(a undolog.Affected) bool { return !strings.Contains(strings.ToLower(a.Path), text) })
	}
	total := len(paths)
	from := min(int(offset), total)
	return map[string]any{"entry": d.Entry, "paths": asTexts(paths[from:min(from+int(limit), total)]), "total": total}, nil
}

// stepAndPath reads the step of a request, and the path in it; "" if none is named.
func stepAndPath(r *http.Request) (id undolog.StepID, path string, err error) {
	if id, err = stepOf(r); err == nil {
		path, err = asPath(r.URL.Query().Get("path"))
	}
	return id, path, err
}

// openStep is open for a request that names a step.
func (s *Server) openStep(r *http.Request) (id undolog.StepID, f folder, c api.Service, err error) {
	if id, err = stepOf(r); err == nil {
		f, c, err = s.open(r)
	}
	return id, f, c, err
}

// diff streams what a step changed, or one path of it.
func (s *Server) diff(w http.ResponseWriter, r *http.Request) error {
	id, path, err := stepAndPath(r)
	if err != nil {
		return err
	}
	f, c, err := s.open(r)
	if err != nil {
		return err
	}
	defer s.shut(r, c)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := &diffWriter{w: w, path: path, left: maxDiff, full: cancel}
	if r.URL.Query().Get("all") == "1" {
		out.left = 1 << 62
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Trailer", "X-Sandbox-Cut")
	err = c.Diff(ctx, api.StepRequest{Directory: f.Path, Step: id}, out)
	if out.cut {
		w.Header().Set("X-Sandbox-Cut", "1")
		return nil
	}
	if err != nil && !out.began {
		return err
	}
	out.end()
	if err != nil {
		panic(http.ErrAbortHandler) // the page sees that the end is missing
	}
	return nil
}

// files are the steps that changed one path, newest first.
func (s *Server) files(r *http.Request) (any, error) {
	path, err := asPath(r.URL.Query().Get("path"))
	if err != nil {
		return nil, err
	}
	if path == "" {
		return nil, &problem{http.StatusBadRequest, "invalid_field", "name a path", ""}
	}
	f, c, err := s.open(r)
	if err != nil {
		return nil, err
	}
	defer s.shut(r, c)
	all, err := c.History(r.Context(), api.HistoryRequest{Directory: f.Path})
	if err != nil {
		return nil, err
	}
	type version struct {
		Entry  undolog.Entry `json:"entry"`
		Change string        `json:"change"`
	}
	versions, looked, cut := []version{}, 0, false
	for i := range all {
		e := &all[i]
		if e.AffectedCount == len(e.AffectedPaths) && !slices.Contains(e.AffectedPaths, path) || e.AffectedCount == 0 {
			continue
		}
		if looked++; looked > maxShown {
			cut = true
			break
		}
		d, err := c.Show(r.Context(), api.StepRequest{Directory: f.Path, Step: e.StepID})
		if err != nil {
			continue // it has gone meanwhile, or is damaged
		}
		if i := slices.IndexFunc(d.Paths, func(a undolog.Affected) bool { return a.Path == path }); i >= 0 {
			versions = append(versions, version{*e, d.Paths[i].Change})
		}
	}
	return map[string]any{"path": asText(path), "versions": versions, "cut": cut}, nil
}

// store is what a folder's log holds.
func (s *Server) store(r *http.Request) (any, error) {
	f, c, err := s.open(r)
	if err != nil {
		return nil, err
	}
	defer s.shut(r, c)
	all, err := c.History(r.Context(), api.HistoryRequest{Directory: f.Path})
	if err != nil {
		return nil, err
	}
	st, err := c.Status(r.Context())
	if err != nil {
		return nil, err
	}
	type held struct {
		Step       undolog.StepID `json:"step_id"`
		Command    string         `json:"command"`
		Bytes      int64          `json:"stored_bytes"`
		Compressed bool           `json:"compressed,omitempty"`
	}
	steps, total := make([]held, 0, len(all)), int64(0)
	for _, e := range all {
		steps = append(steps, held{e.StepID, e.Command, e.StoredBytes, e.Compressed})
		total += e.StoredBytes
	}
	answer := map[string]any{"total": total, "steps": steps, "limits": nil}
	for _, d := range st.Directories {
		if d.Path == f.Path {
			answer["limits"] = d.Log
		}
	}
	return answer, nil
}
