package gateway

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/actors/frontend/gateway/kube"
)

// maxPage is how many sandboxes a page of a list has at most, and by default.
const maxPage = 100

// filter says which sandboxes a list has, and in which order.
type filter struct {
	states   []string
	metadata map[string]string
	template string
	after    time.Time
	oldest   bool // first
	limit    int
	next     string // the id of the last that was listed
}

// filterOf reads a query as E2B's server does.
func filterOf(q url.Values) (f filter, err error) {
	f.template, f.limit, f.next = q.Get("template"), maxPage, q.Get("nextToken")
	if f.next != "" && !wire.IsID(f.next) {
		return f, fail(http.StatusBadRequest, "nextToken: it is none of a list's")
	}
	if text := q.Get("limit"); text != "" {
		if f.limit, err = strconv.Atoi(text); err != nil || f.limit < 1 || f.limit > maxPage {
			return f, fail(http.StatusBadRequest, "limit: it has to be 1 to %d", maxPage)
		}
	}
	switch order := q.Get("order"); order {
	case "", "desc":
	case "asc":
		f.oldest = true
	default:
		return f, fail(http.StatusBadRequest, "order: it is asc or desc")
	}
	for _, text := range q["state"] {
		for state := range strings.SplitSeq(text, ",") {
			if state != stateRunning && state != statePaused {
				return f, fail(http.StatusBadRequest, "state: %s is neither running nor paused", frontend.Short([]byte(frontend.Valid(state))))
			}
			f.states = append(f.states, state)
		}
	}
	if f.metadata, err = pairs(q.Get("metadata")); err != nil {
		return f, err
	}
	if text := q.Get("startedAfter"); text != "" {
		if f.after, err = time.Parse(time.RFC3339, text); err != nil {
			return f, fail(http.StatusBadRequest, "startedAfter: it is no time as RFC 3339 has it")
		}
	}
	return f, nil
}

// pairs reads metadata, which clients encode twice.
func pairs(text string) (map[string]string, error) {
	bad := fail(http.StatusBadRequest, "metadata: it is no query")
	values, err := url.ParseQuery(text)
	if err != nil {
		return nil, bad
	}
	out := map[string]string{}
	for k := range values {
		key, errKey := url.QueryUnescape(k)
		value, errValue := url.QueryUnescape(values.Get(k))
		if errKey != nil || errValue != nil {
			return nil, bad
		}
		out[key] = value
	}
	return out, nil
}

// takes reports whether a sandbox is one of the list.
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

// list answers with a tenant's sandboxes, page by page.
func (g *Gateway) list(q call) error {
	f, err := filterOf(q.r.URL.Query())
	if err != nil {
		return err
	}
	store := g.store(q.namespace)
	ctx, cancel := kube.Within(q.ctx, g.o.Clock, syncTime)
	defer cancel()
	if err := store.Synced(ctx); err != nil {
		return g.cluster(err)
	}
	claims := store.List()
	slices.SortFunc(claims, func(a, b kube.Claim) int {
		order := cmp.Or(a.Metadata.Created.Compare(b.Metadata.Created), strings.Compare(a.Metadata.Name, b.Metadata.Name))
		if f.oldest {
			return order
		}
		return -order
	})
	if f.next != "" {
		at := slices.IndexFunc(claims, func(c kube.Claim) bool { return c.Metadata.Name == f.next })
		if at < 0 {
			return fail(http.StatusBadRequest, "nextToken: the sandbox that the last page ended with is gone: begin again")
		}
		claims = claims[at+1:]
	}
	out := []sandboxDetail{}
	for _, c := range claims {
		d := g.describe(c)
		if !f.takes(d) {
			continue
		}
		if len(out) == f.limit {
			q.w.Header().Set("X-Next-Token", out[f.limit-1].SandboxID)
			break
		}
		out = append(out, d)
	}
	answer(q.w, http.StatusOK, out)
	return nil
}
