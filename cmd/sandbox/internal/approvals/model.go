package approvals

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/texts"
	"github.com/codeagent/sandbox/messages"
)

// by is who decides, for the audit log.
const by = "approvals"

// settle is how long keys that answer do nothing after another question has come to stand under them.
const settle = 700 * time.Millisecond

// scopes are where an answer can stand, limits for how long; zero: for ever.
var (
	scopes = []string{"once", "session", "project", "user"}
	limits = []time.Duration{0, 15 * time.Minute, time.Hour, 8 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}
)

// question is one that waits; answer is one that was given.
type (
	question struct {
		session string
		api.Pending
	}
	answer struct {
		session string
		over    bool // the session has ended
		api.Decided
	}
)

// key is what a list's line stands for, whatever comes before it.
func (q question) key() string { return q.session + " " + q.ID }
func (a answer) key() string   { return a.session + " " + a.ID }

// actions are what the model has others do.
type actions struct {
	decide   func(session string, r api.DecideRequest, done string) tea.Cmd
	takeBack func(session string, r api.TakeBackRequest, done string) tea.Cmd
}

// model is what is shown.
type model struct {
	do  actions
	now func() time.Time

	width, height int

	states  map[string]state
	ended   map[string]state
	asks    []question // of all sessions, the oldest first
	past    []answer   // the newest first
	looked  bool
	lookErr error

	history bool // the answers are shown, not what waits
	chosen  [2]string
	moved   time.Time // when another question came under the keys
	scroll  int       // of the details
	scope   int
	limit   int
	note    string
	bad     bool // the note is an error
}

func newModel(do actions, now func() time.Time) *model {
	return &model{do: do, now: now, states: map[string]state{}, ended: map[string]state{}, scope: slices.Index(scopes, "session")}
}

// second makes the times on the screen go on.
type second struct{}

func tick() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return second{} }) }

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return tick() }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	before := m.current()
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case second:
		cmd = tick()
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case looked:
		m.looked, m.lookErr = true, msg.err
	case state:
		m.states[msg.info.Session] = msg
		delete(m.ended, msg.info.Session)
		m.collect()
	case answered:
		m.decided(msg)
	case gone:
		m.end(msg.info)
	case outcome:
		m.note, m.bad = msg.text, false
		if msg.err != nil {
			m.note, m.bad = msg.err.Error(), true
		}
	case tea.KeyPressMsg:
		return m, m.press(msg.String())
	}
	m.choose()
	if after := m.current(); after != before && after != "" {
		m.moved, m.scroll = m.now(), 0
	}
	return m, cmd
}

// decided moves a question that waits to the answers.
func (m *model) decided(a answered) {
	s, ok := m.states[a.info.Session]
	at := slices.IndexFunc(s.waiting, func(p api.Pending) bool { return p.ID == a.answer.ID })
	if !ok || at < 0 {
		return
	}
	d := api.Decided{Pending: s.waiting[at], At: m.now(), Outcome: "deny", By: a.answer.By, Scope: a.answer.Scope}
	if a.answer.Allow {
		d.Outcome = "allow"
	}
	s.waiting = slices.Delete(slices.Clone(s.waiting), at, at+1)
	s.decided = append(slices.Clone(s.decided), d)
	m.states[a.info.Session] = s
	m.collect()
}

// end notes that a session has ended. What was decided in it is shown on.
func (m *model) end(info api.SessionInfo) {
	s, ok := m.states[info.Session]
	if !ok {
		return
	}
	delete(m.states, info.Session)
	s.waiting = nil
	m.ended[info.Session] = s
	m.collect()
	m.note, m.bad = "The session "+info.Session+" has ended.", false
}

// collect makes the lists of all sessions.
func (m *model) collect() {
	m.asks, m.past = nil, nil
	for _, id := range slices.Sorted(maps.Keys(m.states)) {
		for _, p := range m.states[id].waiting {
			m.asks = append(m.asks, question{id, p})
		}
	}
	slices.SortStableFunc(m.asks, func(a, b question) int { return a.Since.Compare(b.Since) })
	for over, states := range map[bool]map[string]state{false: m.states, true: m.ended} {
		for id, s := range states {
			for _, d := range s.decided {
				m.past = append(m.past, answer{id, over, d})
			}
		}
	}
	slices.SortFunc(m.past, func(a, b answer) int {
		if c := b.At.Compare(a.At); c != 0 {
			return c
		}
		return strings.Compare(b.key(), a.key())
	})
}

// keys are those of the list that is shown.
func (m *model) keys() []string {
	var keys []string
	if m.history {
		for _, a := range m.past {
			keys = append(keys, a.key())
		}
		return keys
	}
	for _, q := range m.asks {
		keys = append(keys, q.key())
	}
	return keys
}

func (m *model) tab() int {
	if m.history {
		return 1
	}
	return 0
}

// current is the chosen line's key.
func (m *model) current() string { return m.chosen[m.tab()] }

// choose keeps the choice if it is there still, else it takes the first.
func (m *model) choose() {
	keys := m.keys()
	switch {
	case len(keys) == 0:
		m.chosen[m.tab()] = ""
	case !slices.Contains(keys, m.current()):
		m.chosen[m.tab()] = keys[0]
	}
}

// move chooses another line: a person did, who sees it.
func (m *model) move(by int) {
	keys := m.keys()
	if len(keys) == 0 {
		return
	}
	i := slices.Index(keys, m.current()) + by
	m.chosen[m.tab()] = keys[min(max(i, 0), len(keys)-1)]
	m.scroll = 0
}

// press does what a key is for.
func (m *model) press(key string) tea.Cmd {
	m.note = ""
	switch key {
	case "q", "ctrl+c", "esc":
		return tea.Quit
	case "down", "j":
		m.move(1)
	case "up", "k":
		m.move(-1)
	case "home", "g":
		m.move(-1 << 30)
	case "end", "G":
		m.move(1 << 30)
	case "pgdown", "space":
		m.scroll += 3
	case "pgup", "b":
		m.scroll = max(0, m.scroll-3)
	case "tab", "h":
		m.history, m.scroll = !m.history, 0
		m.choose()
		m.moved = m.now()
	case "s":
		m.scope = (m.scope + 1) % len(scopes)
	case "t":
		m.limit = (m.limit + 1) % len(limits)
	case "a":
		return m.answer(true)
	case "d":
		return m.answer(false)
	case "u":
		return m.undo()
	}
	return nil
}

// settled reports whether a person has seen what the keys are about.
func (m *model) settled() bool {
	if m.now().Sub(m.moved) >= settle {
		return true
	}
	m.note, m.bad = "The list has just changed: look, then press the key again.", true
	return false
}

// asked is the question that is chosen.
func (m *model) asked() (question, bool) {
	for _, q := range m.asks {
		if !m.history && q.key() == m.current() {
			return q, true
		}
	}
	return question{}, false
}

// given is the answer that is chosen.
func (m *model) given() (answer, bool) {
	for _, a := range m.past {
		if m.history && a.key() == m.current() {
			return a, true
		}
	}
	return answer{}, false
}

// answer decides what is chosen.
func (m *model) answer(allow bool) tea.Cmd {
	q, ok := m.asked()
	if !ok || !m.settled() {
		return nil
	}
	r := api.DecideRequest{ID: q.ID, Allow: allow, By: by}
	done := "Denied " + q.ID
	if allow {
		done = "Allowed " + q.ID
	}
	if messages.Lasting(q.Kind) {
		r.Scope, r.For = scopes[m.scope], m.time()
		done += ", " + m.stands()
	}
	m.note, m.bad = "Answering "+q.ID+" …", false
	return m.do.decide(q.session, r, done+".")
}

// time is for how long an answer stands.
func (m *model) time() time.Duration {
	if scopes[m.scope] == "once" {
		return 0
	}
	return limits[m.limit]
}

// stands says where an answer stands, and for how long.
func (m *model) stands() string {
	where := map[string]string{"once": "once", "session": "for this session", "project": "for this project", "user": "for all that you run"}[scopes[m.scope]]
	if d := m.time(); d > 0 {
		where += " and " + short(d)
	}
	return where
}

// short is a limit in words.
func short(d time.Duration) string {
	switch {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	case d >= time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dm", int(d.Minutes()))
}

// undo takes the chosen answer back.
func (m *model) undo() tea.Cmd {
	a, ok := m.given()
	if !ok {
		if !m.history {
			m.note, m.bad = "Answers are taken back in the history: press tab.", true
		}
		return nil
	}
	if !m.settled() {
		return nil
	}
	switch {
	case a.over && a.Rule != "" && a.Scope != "" && a.Scope != "session":
		m.note, m.bad = "Its session has ended: 'sandbox policy remove "+texts.Name(a.Rule)+"' takes it back.", true
		return nil
	case a.over:
		m.note, m.bad = "Its session has ended, and the answer with it.", true
		return nil
	case !a.Standing:
		m.note, m.bad = "It cannot be taken back: "+a.Final+".", true
		return nil
	}
	m.note, m.bad = "Taking back "+a.ID+" …", false
	return m.do.takeBack(a.session, api.TakeBackRequest{ID: a.ID, By: by}, a.ID+" was taken back; what has happened because of it stays.")
}
