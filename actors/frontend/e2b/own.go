package e2b

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/actors/frontend/stdio"
)

// routesOwn are the requests that E2B has not: about the history of a sandbox. Their bodies and answers are those of STDIO. find finds the sandbox that runs.
func (s *Server) routesOwn(m *http.ServeMux, find func(*http.Request) (*place, error)) {
	handle := func(pattern, operation string, payload func(*http.Request) ([]byte, error)) {
		m.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			p, err := find(r)
			if err == nil {
				err = s.own(w, r, p, operation, payload)
			}
			if err != nil {
				answerError(w, err)
			}
		})
	}
	handle("POST /sandboxes/{id}/undo", "undo.rollback", s.sent)
	handle("POST /sandboxes/{id}/redo", "undo.redo", s.sent)
	handle("POST /sandboxes/{id}/restore", "undo.restore", s.sent)
	handle("POST /sandboxes/{id}/marks", "undo.mark", s.sent)
	handle("GET /sandboxes/{id}/marks", "undo.mark", asked())
	handle("GET /sandboxes/{id}/history", "undo.history", asked("limit"))
	handle("GET /sandboxes/{id}/history/{step_id}", "undo.show", asked("step_id", "offset", "limit"))
	handle("GET /sandboxes/{id}/diff", "undo.diff", asked("step_id", "max_bytes"))
}

// sent is the payload of a request with a body. An empty one is an empty object.
func (s *Server) sent(r *http.Request) ([]byte, error) {
	b, err := io.ReadAll(r.Body)
	if len(b) == 0 {
		return nil, err
	}
	if b[0] != '{' {
		return nil, wire.Fail(http.StatusBadRequest, "the body has to be a JSON object")
	}
	return b, err
}

// asked makes the payload of a request whose query has numbers of these names.
func asked(names ...string) func(*http.Request) ([]byte, error) {
	return func(r *http.Request) ([]byte, error) {
		object := map[string]int64{}
		for _, name := range names {
			text := r.PathValue(name)
			if text == "" {
				text = r.URL.Query().Get(name)
			}
			if text == "" {
				continue
			}
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, wire.Fail(http.StatusBadRequest, "%s: %q is no number", name, frontend.Short([]byte(text)))
			}
			object[name] = n
		}
		return json.Marshal(object)
	}
}

// own carries out one of our own requests.
func (s *Server) own(w http.ResponseWriter, r *http.Request, p *place, operation string, payload func(*http.Request) ([]byte, error)) error {
	r.Body = s.bounded(w, r, maxMessage)
	b, err := payload(r)
	if err != nil {
		return err
	}
	ctx, _, end, err := s.begin(r, p.live)
	if err != nil {
		return err
	}
	defer end()
	v, failed := stdio.Carry(ctx, p.live, frontendName, operation, b)
	if failed != nil {
		return &wire.Problem{Status: statusOf(string(failed.Code)), Message: failed.Message, Data: failed}
	}
	wire.Answer(w, http.StatusOK, v)
	return nil
}
