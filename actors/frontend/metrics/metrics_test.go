package metrics

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// fake is a session.
type fake struct {
	mu   sync.Mutex
	st   api.Status
	err  error
	hear func(api.Event)
}

func (f *fake) Status(context.Context) (api.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.st, f.err
}

func (f *fake) Observe(h func(api.Event)) func() {
	f.hear = h
	return func() { f.hear = func(api.Event) {} }
}

func (f *fake) counts(requests map[string]uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.st.Directories {
		f.st.Directories[i].Bridge.Requests = requests
	}
}

// busy is a session with all that is measured.
func busy() *fake {
	step := undolog.StepID(7)
	folder := api.DirectoryStatus{
		State: "ok", Log: undolog.LogStatus{Steps: 3, Redoable: 1, StoredBytes: 1000, Near: []string{"max_steps"}},
		Bridge: &api.BridgeStatus{Kind: "mediated", InFlight: 2, Requests: map[string]uint64{"CREATE": 5, "NOTIFICATIONS": 50, "MEAN_MICROSECONDS": 30, "GRANTS": 4, "GRANTED": 1, "RECAPTURED": 9}},
	}
	other := folder
	other.State, other.Log.Near = "read_only", nil
	return &fake{st: api.Status{State: "active", OpenStep: &step, Running: make([]api.RunningCommand, 2), Pending: 1, Directories: []api.DirectoryStatus{folder, other}}}
}

// scrape returns what is said, and each family of it.
func scrape(t *testing.T, m *Metrics) (text string, families map[string]*dto.MetricFamily) {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	b, err := io.ReadAll(w.Body)
	if err != nil || w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatalf("%d %v %v\n%s", w.Code, w.Header(), err, b)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err = parser.TextToMetricFamilies(strings.NewReader(string(b)))
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return string(b), families
}

// value is that of one series, whose labels are in the order of their names: `name{a="b"}`.
func value(t *testing.T, text, series string) float64 {
	t.Helper()
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			var v float64
			if err := json.Unmarshal([]byte(strings.TrimSpace(rest)), &v); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			return v
		}
	}
	t.Fatalf("no %s in\n%s", series, text)
	return 0
}

func expect(t *testing.T, m *Metrics, want map[string]float64) {
	t.Helper()
	text, _ := scrape(t, m)
	for _, series := range slices.Sorted(maps.Keys(want)) {
		if got := value(t, text, series); got != want[series] {
			t.Errorf("%s is %v, not %v", series, got, want[series])
		}
	}
}

// TestFigures: each figure is that of all sessions together.
func TestFigures(t *testing.T) {
	m := New(Options{Version: "1.2.3"})
	defer m.Join(busy())()
	defer m.Join(busy())()
	idle := &fake{st: api.Status{State: "starting", Directories: []api.DirectoryStatus{{State: "ok"}}}}
	defer m.Join(idle)()
	expect(t, m, map[string]float64{
		`sandbox_build_info{version="1.2.3"}`:                              1,
		`sandbox_sessions{state="active"}`:                                 2,
		`sandbox_sessions{state="starting"}`:                               1,
		`sandbox_sessions{state="failed"}`:                                 0,
		`sandbox_folders{state="ok"}`:                                      3,
		`sandbox_folders{state="read_only"}`:                               2,
		`sandbox_commands_running`:                                         4,
		`sandbox_steps_open`:                                               2,
		`sandbox_holds_pending`:                                            2,
		`sandbox_log_steps`:                                                12,
		`sandbox_log_redoable_steps`:                                       4,
		`sandbox_log_stored_bytes`:                                         4000,
		`sandbox_log_limits_near`:                                          2,
		`sandbox_bridge_requests_in_flight`:                                8,
		`sandbox_bridge_requests_total{bridge="mediated",kind="create"}`:   20,
		`sandbox_mediated_calls_total`:                                     100, // each folder of a session shows the same
		`sandbox_mediated_grants_total`:                                    8,
		`sandbox_steps_total{outcome="failed"}`:                            0,
		`sandbox_undo_duration_seconds_count{operation="undo"}`:            0,
		`sandbox_undo_duration_seconds_bucket{operation="redo",le="+Inf"}`: 0,
		`sandbox_decisions_total{answer="deny"}`:                           0,
	})
	text, _ := scrape(t, m)
	for _, not := range []string{"granted", "recaptured", "mean_micro", "notifications"} {
		if strings.Contains(text, not) {
			t.Errorf("%s is no request", not)
		}
	}
}

// TestEvents: steps and questions are counted by their events, whatever words these have.
func TestEvents(t *testing.T) {
	m := New(Options{})
	f := busy()
	defer m.Join(f)()
	for _, e := range []api.Event{
		{Type: api.EventStepCompleted, Outcome: "completed"}, // of one folder, and not the last
		{Type: api.EventStepCompleted, Outcome: "completed", Last: true},
		{Type: api.EventStepCompleted, Outcome: "completed", Last: true, Others: 1}, // the step goes on
		{Type: api.EventStepCompleted, Outcome: "evil\"}\n", Last: true},
		{Type: api.EventSafeguardTriggered, Pending: &api.Pending{Kind: messages.KindDelete}},
		{Type: api.EventSafeguardTriggered, Pending: &api.Pending{Kind: "new kind"}},
		{Type: api.EventSafeguardTriggered},
		{Type: api.EventSafeguardDecided, Decision: &api.DecideRequest{Allow: true}},
		{Type: api.EventSafeguardDecided, Decision: &api.DecideRequest{}},
		{Type: api.EventSafeguardDecided, Decision: &api.DecideRequest{}},
	} {
		f.hear(e)
	}
	m.Applied("undo", 30*time.Millisecond)
	m.Applied("undo", 2*time.Second)
	m.Applied("another", time.Second)
	expect(t, m, map[string]float64{
		`sandbox_steps_total{outcome="completed"}`:                          1,
		`sandbox_steps_total{outcome="other"}`:                              1,
		`sandbox_holds_total{kind="delete_threshold"}`:                      1,
		`sandbox_holds_total{kind="other"}`:                                 1,
		`sandbox_decisions_total{answer="allow"}`:                           1,
		`sandbox_decisions_total{answer="deny"}`:                            2,
		`sandbox_undo_duration_seconds_count{operation="undo"}`:             2,
		`sandbox_undo_duration_seconds_sum{operation="undo"}`:               2.03,
		`sandbox_undo_duration_seconds_bucket{operation="undo",le="0.025"}`: 0,
		`sandbox_undo_duration_seconds_bucket{operation="undo",le="0.05"}`:  1,
		`sandbox_undo_duration_seconds_bucket{operation="undo",le="2.5"}`:   2,
		`sandbox_undo_duration_seconds_count{operation="restore"}`:          0,
	})
}

// TestCountersNeverFall: neither when a bridge begins again at 0, nor when a session ends.
func TestCountersNeverFall(t *testing.T) {
	m := New(Options{})
	f := busy()
	leave := m.Join(f)
	const creates, calls = `sandbox_bridge_requests_total{bridge="mediated",kind="create"}`, `sandbox_mediated_calls_total`
	expect(t, m, map[string]float64{creates: 10, calls: 50})
	f.counts(map[string]uint64{"CREATE": 1, "NOTIFICATIONS": 60}) // the bridges were replaced, but not the filter
	expect(t, m, map[string]float64{creates: 12, calls: 60})
	f.counts(map[string]uint64{"CREATE": 2, "NOTIFICATIONS": 70})
	leave()
	leave()
	expect(t, m, map[string]float64{creates: 14, calls: 70, `sandbox_sessions{state="active"}`: 0})

	f = busy()
	leave = m.Join(f)
	expect(t, m, map[string]float64{creates: 24, calls: 120})
	f.mu.Lock()
	f.err = messages.ErrStopped
	f.mu.Unlock()
	expect(t, m, map[string]float64{creates: 24, calls: 120, `sandbox_sessions{state="active"}`: 0})
	leave()
	expect(t, m, map[string]float64{creates: 24, calls: 120})
}

// TestForm: what is said is as Prometheus has it, to the last line.
func TestForm(t *testing.T) {
	m := New(Options{Version: "1\"\n{"})
	f := busy()
	defer m.Join(f)()
	f.hear(api.Event{Type: api.EventSafeguardTriggered, Pending: &api.Pending{Kind: messages.KindUse}})
	text, families := scrape(t, m)
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	line := regexp.MustCompile(`^(# (HELP [a-z_]+ [^\n]+|TYPE [a-z_]+ (counter|gauge|histogram|summary))|[a-z_]+(\{[a-z_]+="([^"\\\n]|\\["\\n])*"(,[a-z_]+="([^"\\\n]|\\["\\n])*")*\})? (NaN|[+-]Inf|[-+0-9.e]+))\n$`)
	said := map[string]bool{}
	for l := range strings.Lines(text) {
		if !line.MatchString(l) {
			t.Errorf("%q", l)
		}
		if said[l] {
			t.Errorf("twice: %q", l)
		}
		said[l] = true
	}
	ours := 0
	for name, family := range families {
		if family.GetHelp() == "" || family.GetType() == dto.MetricType_UNTYPED {
			t.Errorf("%s: no help or no type", name)
		}
		if strings.HasPrefix(name, "sandbox_") {
			ours++
		} else if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("%s: a name of nobody's", name)
		}
	}
	if ours < 15 {
		t.Errorf("only %d families of ours", ours)
	}
}

// TestDashboard: each expression of the dashboard asks for what there is.
func TestDashboard(t *testing.T) {
	b, err := os.ReadFile("../../../packaging/grafana/sandbox.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Title  string
		Panels []struct {
			ID          int
			Title, Type string
			Targets     []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	if err := json.Unmarshal(b, &dashboard); err != nil {
		t.Fatal(err)
	}
	m := New(Options{Version: "1"})
	f := busy()
	defer m.Join(f)()
	f.hear(api.Event{Type: api.EventSafeguardTriggered, Pending: &api.Pending{Kind: messages.KindUse}})
	_, families := scrape(t, m)
	metric := regexp.MustCompile(`\b(sandbox|process|go)_[a-z_]+`)
	used, ids := map[string]bool{}, map[int]bool{}
	check := func(where, expr string) {
		names := metric.FindAllString(expr, -1)
		if len(names) == 0 {
			t.Errorf("%s: %q asks for nothing of ours", where, expr)
		}
		for _, name := range names {
			family := name
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				if base, ok := strings.CutSuffix(name, suffix); ok && families[base].GetType() == dto.MetricType_HISTOGRAM {
					family = base
				}
			}
			if used[family] = true; families[family] == nil {
				t.Errorf("%s: there is no %s", where, name)
			}
		}
	}
	for _, p := range dashboard.Panels {
		if ids[p.ID] || p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("a panel: %+v", p)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			check(p.Title, target.Expr)
		}
	}
	for _, v := range dashboard.Templating.List {
		if v.Definition != "" {
			check(v.Name, v.Definition)
		}
	}
	for name := range families {
		if strings.HasPrefix(name, "sandbox_") && !used[name] {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

var update = flag.Bool("update", false, "write the table in docs/fleet.md")

// TestDocumented: docs/fleet.md lists what there is.
func TestDocumented(t *testing.T) {
	m := New(Options{Version: "1"})
	f := busy()
	defer m.Join(f)()
	f.hear(api.Event{Type: api.EventSafeguardTriggered, Pending: &api.Pending{Kind: messages.KindUse}})
	_, families := scrape(t, m)
	table := "| metric | kind | what |\n|---|---|---|\n"
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if !strings.HasPrefix(name, "sandbox_") {
			continue
		}
		labels := ""
		for _, l := range families[name].GetMetric()[0].GetLabel() {
			labels += "," + l.GetName()
		}
		if labels != "" {
			labels = "{" + labels[1:] + "}"
		}
		table += fmt.Sprintf("| `%s%s` | %s | %s |\n", name, labels, strings.ToLower(families[name].GetType().String()), families[name].GetHelp())
	}
	const file, begin, end = "../../../docs/fleet.md", "<!-- metrics -->\n", "<!-- end -->"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("docs/fleet.md has no place for the metrics")
	}
	want := before + begin + table + end + after
	if string(b) == want {
		return
	}
	if !*update {
		t.Fatal("docs/fleet.md does not list what there is: go test ./actors/frontend/metrics -run Documented -update")
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
