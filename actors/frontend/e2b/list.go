package e2b

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/codeagent/sandbox/actors/frontend"
)

// listSandboxes lists a page of sandboxes. The token of the next one is the last one's time and id.
func (s *Server) listSandboxes(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	filter, err := filterOf(q)
	if err != nil {
		return err
	}
	var all []sandboxDetail
	usage := s.usage(s.o.Root)
	running := 0
	for _, sb := range s.list() {
		d := sb.describe(usage)
		if d.State == stateRunning {
			running++
		}
		if filter.takes(d) {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b sandboxDetail) int {
		c := cmp.Or(b.StartedAt.Compare(a.StartedAt), cmp.Compare(a.SandboxID, b.SandboxID))
		if q.Get("order") == "asc" {
			c = -c
		}
		return c
	})
	w.Header().Set("X-Total-Running", strconv.Itoa(running))
	return page(w, q, all, func(d sandboxDetail) string { return d.SandboxID })
}

// page answers with a page of a list: what follows the item that nextToken names.
func page[T any](w http.ResponseWriter, q url.Values, all []T, id func(T) string) error {
	limit := maxPage
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fail(http.StatusBadRequest, "limit: %q is no number from 1 to %d", frontend.Short([]byte(text)), maxPage)
		}
		limit = min(n, maxPage)
	}
	if after := q.Get("nextToken"); after != "" {
		at := slices.IndexFunc(all, func(v T) bool { return id(v) == after })
		if at < 0 {
			return fail(http.StatusBadRequest, "nextToken: the item that the last page ended with is gone: begin again")
		}
		all = all[at+1:]
	}
	if len(all) > limit {
		all = all[:limit]
		w.Header().Set("X-Next-Token", id(all[limit-1]))
	}
	if all == nil {
		all = []T{}
	}
	answer(w, http.StatusOK, all)
	return nil
}

// filter says which sandboxes a list has.
type filter struct {
	states   []string
	metadata map[string]string
	template string
	after    time.Time
}

func filterOf(q url.Values) (f filter, err error) {
	f.template = q.Get("template")
	for _, text := range q["state"] {
		for state := range strings.SplitSeq(text, ",") {
			if state != stateRunning && state != statePaused {
				return f, fail(http.StatusBadRequest, "state: %q is neither running nor paused", frontend.Short([]byte(state)))
			}
			f.states = append(f.states, state)
		}
	}
	if text := q.Get("metadata"); text != "" {
		pairs, err := url.ParseQuery(text)
		if err != nil {
			return f, fail(http.StatusBadRequest, "metadata: it is no query")
		}
		f.metadata = map[string]string{}
		for k := range pairs {
			key, err1 := url.QueryUnescape(k)
			value, err2 := url.QueryUnescape(pairs.Get(k))
			if err1 != nil || err2 != nil {
				return f, fail(http.StatusBadRequest, "metadata: it is no query")
			}
			f.metadata[key] = value
		}
	}
	if text := q.Get("startedAfter"); text != "" {
		if f.after, err = time.Parse(time.RFC3339, text); err != nil {
			return f, fail(http.StatusBadRequest, "startedAfter: it is no time as RFC 3339 has it")
		}
	}
	return f, nil
}

func (f filter) takes(d sandboxDetail) bool {
	if len(f.states) > 0 && !slices.Contains(f.states, d.State) || f.template != "" && d.TemplateID != f.template || d.StartedAt.Before(f.after) {
		return false
	}
	for k, v := range f.metadata {
		if have, ok := d.Metadata[k]; !ok || have != v {
			return false
		}
	}
	return true
}
