package wire

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/codeagent/sandbox/actors/frontend"
)

// MaxPage is how many items a page of a list has at most, and by default.
const MaxPage = 100

// Filter says which sandboxes a list has.
type Filter struct {
	states   []string
	metadata map[string]string
	template string
	after    time.Time
}

// FilterOf reads the query of a list of sandboxes: state, metadata, template and startedAfter. The error is a [Problem].
func FilterOf(q url.Values) (f Filter, err error) {
	f.template = q.Get("template")
	for _, text := range q["state"] {
		for state := range strings.SplitSeq(text, ",") {
			if state != StateRunning && state != StatePaused {
				return f, Fail(http.StatusBadRequest, "state: %q is neither running nor paused", frontend.Short([]byte(state)))
			}
			f.states = append(f.states, state)
		}
	}
	if f.metadata, err = pairs(q.Get("metadata")); err != nil {
		return f, err
	}
	if text := q.Get("startedAfter"); text != "" {
		if f.after, err = time.Parse(time.RFC3339, text); err != nil {
			return f, Fail(http.StatusBadRequest, "startedAfter: it is no time as RFC 3339 has it")
		}
	}
	return f, nil
}

// pairs reads metadata, which clients encode twice.
func pairs(text string) (map[string]string, error) {
	bad := Fail(http.StatusBadRequest, "metadata: it is no query")
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

// Takes tells whether a sandbox is one of the list.
func (f Filter) Takes(d Detail) bool {
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

// Position is where an item stands in a list: by its time, and by its id among those of one time.
type Position struct {
	At time.Time
	ID string // as [ValidName] takes it
}

func (p Position) compare(o Position) int {
	return cmp.Or(p.At.Compare(o.At), strings.Compare(p.ID, o.ID))
}

// token is what a client names a position by.
func (p Position) token() string {
	return base64.RawURLEncoding.EncodeToString([]byte(p.At.UTC().Format(time.RFC3339Nano) + " " + p.ID))
}

func positionOf(token string) (p Position, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return p, false
	}
	at, id, _ := strings.Cut(string(b), " ")
	p.ID = id
	p.At, err = time.Parse(time.RFC3339Nano, at)
	return p, err == nil && ValidName(id)
}

// page is the part of a list that a query asks for.
type page struct {
	limit  int
	oldest bool // first
	after  *Position
}

func pageOf(q url.Values) (p page, err error) {
	p.limit = MaxPage
	if text := q.Get("limit"); text != "" {
		if p.limit, err = strconv.Atoi(text); err != nil || p.limit < 1 || p.limit > MaxPage {
			return p, Fail(http.StatusBadRequest, "limit: it has to be 1 to %d", MaxPage)
		}
	}
	switch q.Get("order") {
	case "", "desc":
	case "asc":
		p.oldest = true
	default:
		return p, Fail(http.StatusBadRequest, "order: it is asc or desc")
	}
	if token := q.Get("nextToken"); token != "" {
		at, ok := positionOf(token)
		if !ok {
			return p, Fail(http.StatusBadRequest, "nextToken: it is none of a list's")
		}
		p.after = &at
	}
	return p, nil
}

// Page answers with a page of a list: the query says how long it is (limit), in which order (order) and behind what it begins (nextToken). Who follows the tokens sees each item once that is there all the time,
// whatever comes and goes meanwhile. all is put in order; describe is asked for the items of the page, and leaves out those for which it returns false. The error is a [Problem], before anything is answered.
func Page[T, D any](w http.ResponseWriter, q url.Values, all []T, at func(T) Position, describe func(T) (D, bool)) error {
	p, err := pageOf(q)
	if err != nil {
		return err
	}
	order := func(a, b Position) int {
		if p.oldest {
			return a.compare(b)
		}
		return b.compare(a)
	}
	slices.SortFunc(all, func(a, b T) int { return order(at(a), at(b)) })
	list, last := []D{}, Position{}
	for _, v := range all {
		here := at(v)
		if p.after != nil && order(here, *p.after) <= 0 {
			continue
		}
		d, ok := describe(v)
		if !ok {
			continue
		}
		if len(list) == p.limit {
			w.Header().Set("X-Next-Token", last.token())
			break
		}
		list, last = append(list, d), here
	}
	Answer(w, http.StatusOK, list)
	return nil
}
