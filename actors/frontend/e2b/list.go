package e2b

import (
	"net/http"
	"strconv"

	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
)

// listSandboxes lists a page of sandboxes.
func (s *Server) listSandboxes(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	filter, err := wire.FilterOf(q)
	if err != nil {
		return err
	}
	var all []wire.Detail
	usage := s.usage(s.o.Root)
	running := 0
	for _, sb := range s.list() {
		d := sb.describe(usage)
		if d.State == wire.StateRunning {
			running++
		}
		all = append(all, d)
	}
	w.Header().Set("X-Total-Running", strconv.Itoa(running))
	return wire.Page(w, q, all, func(d wire.Detail) wire.Position { return wire.Position{At: d.StartedAt, ID: d.SandboxID} }, func(d wire.Detail) (wire.Detail, bool) { return d, filter.Takes(d) })
}
