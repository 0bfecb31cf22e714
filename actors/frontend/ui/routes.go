package ui

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/codeagent/sandbox/actors/api"
)

// routes takes the requests of docs/ui.md.
func (s *Server) routes() {
	m := http.NewServeMux()
	handle := func(pattern string, f http.HandlerFunc) {
		s.patterns = append(s.patterns, pattern)
		m.HandleFunc(pattern, f)
	}
	for pattern, f := range map[string]func(http.ResponseWriter, *http.Request) error{
		static:             s.file,
		"GET /api/events":  s.events,
		"GET /api/":        noSuch,
		"POST /api/":       noSuch,
		"GET /api/doctor":  s.report("doctor"),
		"GET /api/config":  s.report("config"),
		"GET /api/clients": s.report("clients"),
		"GET /api/machine": s.report("machine"),

		"GET /api/folders/{folder}/steps/{step}/diff":    s.diff,
		"GET /api/folders/{folder}/steps/{step}/content": s.content,
	} {
		handle(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := f(w, r); err != nil {
				fail(w, err)
			}
		})
	}
	for pattern, f := range map[string]func(*http.Request) (any, error){
		"GET /api/overview":                             s.overview,
		"GET /api/decisions":                            s.decisions,
		"POST /api/sessions/{session}/decisions/{id}":   s.decide,
		"GET /api/sessions/{session}/tree":              s.tree,
		"GET /api/sessions/{session}/network":           s.network,
		"POST /api/clients/{client}":                    s.integrate,
		"GET /api/config/{level}":                       s.text,
		"POST /api/config/{level}":                      s.putText,
		"GET /api/machine/build":                        s.buildState,
		"POST /api/machine/build":                       s.buildImage,
		"POST /api/machine/build/cancel":                s.cancelBuild,
		"GET /api/folders/{folder}/history":             s.history,
		"GET /api/folders/{folder}/steps/{step}":        s.step,
		"GET /api/folders/{folder}/steps/{step}/output": s.output,
		"GET /api/folders/{folder}/files":               s.files,
		"GET /api/folders/{folder}/store":               s.store,
		"POST /api/folders/{folder}/undo":               s.undo(Sources.Undo),
		"POST /api/folders/{folder}/redo":               s.undo(Sources.Redo),
		"POST /api/folders/{folder}/restore":            s.restore,
		"POST /api/folders/{folder}/mark":               s.mark,
		"POST /api/folders/{folder}/gc":                 s.gc,
	} {
		handle(pattern, func(w http.ResponseWriter, r *http.Request) {
			v, err := f(r)
			if err != nil {
				fail(w, err)
				return
			}
			if v == nil {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(v); err != nil {
				s.o.Logger.Debug("a page left before its answer", "component", "ui", "err", err)
			}
		})
	}
	s.mux = m
}

func noSuch(http.ResponseWriter, *http.Request) error {
	return &problem{http.StatusNotFound, "not_found", "there is no such request", ""}
}

// report passes on what a command says.
func (s *Server) report(what string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		folder, err := s.folderPath(r.URL.Query().Get("folder"))
		if err != nil {
			return err
		}
		b, err := s.o.Sources.Report(r.Context(), what, folder)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(b)
		return nil
	}
}

// folderPath is the path of a folder by its id; empty for none.
func (s *Server) folderPath(id string) (string, error) {
	if id == "" {
		return "", nil
	}
	f, err := s.folder(id)
	return f.Path, err
}

// number reads a number of the query, 0 to most; fallback if it is not there.
func number(r *http.Request, name string, fallback, most uint64) (uint64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, &problem{http.StatusBadRequest, "invalid_field", name + " is not a number", ""}
	}
	return min(n, most), nil
}

// tree is the live actor tree of a session.
func (s *Server) tree(r *http.Request) (any, error) {
	c, err := s.session(r, r.PathValue("session"))
	if err != nil {
		return nil, err
	}
	defer s.shut(r, c)
	return c.Inspect(r.Context())
}

// shut gives a service up.
func (s *Server) shut(r *http.Request, c api.Service) {
	if err := c.Close(r.Context()); err != nil {
		s.o.Logger.Debug("closing a service", "component", "ui", "err", err)
	}
	if release, ok := s.opened.LoadAndDelete(r); ok {
		release.(func())()
	}
}
