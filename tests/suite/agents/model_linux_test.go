package agents

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// turn is what the model says once: calls that the agent may make at the same time.
// Without calls it is the last.
type turn []call

// call is one of the agent's shell tool, or of its own tool that edits.
type call struct {
	shell string
	edit  *edit
	want  string // what the result must have in it
}

// edit replaces a line of a file.
type edit struct{ path, old, new string }

// dialect is the protocol that an agent speaks with its model.
type dialect interface {
	// results are those of all calls so far, in their order; ok is false if the
	// request is not one of the conversation (a title, a list of models).
	results(path string, body []byte) (results []string, ok bool, err error)
	// answer writes the model's answer, of which n calls were before. An answer
	// without calls is text.
	answer(w io.Writer, body []byte, n int, t turn) error
	contentType() string
}

// model is the scripted server.
type model struct {
	t       *testing.T
	dir     string
	talk    []turn
	dialect dialect

	mu    sync.Mutex
	trees []*treesnap.Snapshot // before each turn
	said  []string             // results of calls
}

// newModel serves the conversation until the test ends, and returns the model and
// the port of the host's loopback on which it listens.
func newModel(t *testing.T, dir string, d dialect, talk []turn) (m *model, port string) {
	m = &model{t: t, dir: dir, dialect: d, talk: append(talk, nil)}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	return m, server.URL[strings.LastIndex(server.URL, ":")+1:]
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the agent has gone
	}
	results, ok, err := m.dialect.results(r.URL.Path, body)
	if err != nil {
		m.t.Errorf("%s %s: %v: %.2000s", r.Method, r.URL, err, body)
	}
	if r.Method != http.MethodPost || err != nil {
		http.NotFound(w, r)
		return
	}
	var next turn
	before := 0
	if ok {
		if next, before, err = m.turn(results); err != nil {
			m.t.Error(err)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", m.dialect.contentType())
	if err := m.dialect.answer(w, body, before, next); err != nil {
		m.t.Logf("%s: %v", r.URL, err)
	}
}

// turn is what comes after these results, and how many calls were before it.
func (m *model) turn(results []string) (turn, int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for i, t := range m.talk {
		if n != len(results) {
			n += len(t)
			continue
		}
		m.said = results
		if i == len(m.trees) { // not asked again
			tree, err := treesnap.Take(m.dir)
			if err != nil {
				return nil, 0, err
			}
			m.trees = append(m.trees, tree)
		}
		return t, n, nil
	}
	return nil, 0, fmt.Errorf("%d results do not belong to an answer: %q", len(results), results)
}

// check fails the test unless the conversation came to its end, with the results
// that were to be expected.
func (m *model) check() bool {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	i := 0
	for _, t := range m.talk {
		for _, c := range t {
			switch {
			case i >= len(m.said):
				m.t.Errorf("no result of %+v", c)
			case !strings.Contains(m.said[i], c.want):
				m.t.Errorf("the result of %+v: %q", c, m.said[i])
			}
			i++
		}
	}
	if len(m.trees) != len(m.talk) {
		m.t.Errorf("%d of %d answers were asked for", len(m.trees), len(m.talk))
	}
	return !m.t.Failed()
}
