package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/messages"
)

// Names of counters that the bridges keep.
const (
	requestsName = "sandbox_bridge_requests_total"
	mediatedName = "sandbox_mediated_calls_total"
	grantsName   = "sandbox_mediated_grants_total"
)

// gauge is a figure that goes up and down.
type gauge struct {
	name, help string
	// of returns what a session adds to it.
	of func(api.Status) float64
}

// gauges are those without labels.
func gauges() []gauge {
	return []gauge{
		{"sandbox_commands_running", "Commands that run in open steps.", func(st api.Status) float64 { return float64(len(st.Running)) }},
		{"sandbox_steps_open", "Steps that are open.", func(st api.Status) float64 {
			if st.OpenStep == nil {
				return 0
			}
			return 1
		}},
		{"sandbox_holds_pending", "Questions that wait for a person.", func(st api.Status) float64 { return float64(st.Pending) }},
		{"sandbox_log_steps", "Steps that the logs keep and an undo can take back.", folders(func(d api.DirectoryStatus) float64 { return float64(d.Log.Steps) })},
		{"sandbox_log_redoable_steps", "Undone steps that the logs keep.", folders(func(d api.DirectoryStatus) float64 { return float64(d.Log.Redoable) })},
		{"sandbox_log_stored_bytes", "What the logs take on the disk.", folders(func(d api.DirectoryStatus) float64 { return float64(d.Log.StoredBytes) })},
		{"sandbox_log_limits_near", "Folders whose log is near a limit at which old steps go.", folders(func(d api.DirectoryStatus) float64 {
			if len(d.Log.Near) > 0 {
				return 1
			}
			return 0
		})},
		{"sandbox_bridge_requests_in_flight", "Requests that bridges serve now, held ones too.", folders(func(d api.DirectoryStatus) float64 {
			if d.Bridge == nil {
				return 0
			}
			return float64(d.Bridge.InFlight)
		})},
	}
}

// folders adds up what a session's folders have.
func folders(of func(api.DirectoryStatus) float64) func(api.Status) float64 {
	return func(st api.Status) (sum float64) {
		for _, d := range st.Directories {
			sum += of(d)
		}
		return sum
	}
}

// kind is a question's, as a label.
func kind(k string) string {
	return known(k, messages.KindDelete, messages.KindOverwrite, messages.KindRename, messages.KindProtected, messages.KindCommand, messages.KindNetwork, messages.KindGate, messages.KindUse)
}

// collector asks the sessions when it is scraped.
type collector struct{ m *Metrics }

// Describe implements [prometheus.Collector]: nothing is said before the first scrape.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c collector) Collect(out chan<- prometheus.Metric) {
	states := zero("starting", "active", "stopping", "failed", "other")
	folderStates := zero("ok", "read_only", "recovering", "version_mismatch", "other")
	list := gauges()
	sums := make([]float64, len(list))
	counted := counts{{name: mediatedName}: 0, {name: grantsName}: 0}

	c.m.mu.Lock()
	for s, n := range c.m.past {
		counted[s] += n
	}
	for j := range c.m.sessions {
		st, ok := j.read()
		for s, n := range j.counted {
			counted[s] += n.total()
		}
		if !ok {
			continue
		}
		states[known(st.State, "starting", "active", "stopping", "failed")]++
		for _, d := range st.Directories {
			folderStates[known(d.State, "ok", "read_only", "recovering", "version_mismatch")]++
		}
		for i, g := range list {
			sums[i] += g.of(st)
		}
	}
	c.m.mu.Unlock()

	for i, g := range list {
		send(out, g.name, g.help, prometheus.GaugeValue, sums[i])
	}
	for state, n := range states {
		send(out, "sandbox_sessions", "Sessions of this process, by state.", prometheus.GaugeValue, n, "state", state)
	}
	for state, n := range folderStates {
		send(out, "sandbox_folders", "Working folders of the sessions, by state.", prometheus.GaugeValue, n, "state", state)
	}
	for s, n := range counted {
		switch s.name {
		case requestsName:
			send(out, s.name, "Requests that bridges have served, by bridge and kind.", prometheus.CounterValue, n, "bridge", s.bridge, "kind", s.kind)
		case mediatedName:
			send(out, s.name, "System calls that the mediated bridge has looked at.", prometheus.CounterValue, n)
		case grantsName:
			send(out, s.name, "Files that the mediated bridge has given to their callers, to be written natively.", prometheus.CounterValue, n)
		}
	}
}

func zero(words ...string) map[string]float64 {
	m := make(map[string]float64, len(words))
	for _, w := range words {
		m[w] = 0
	}
	return m
}

// send sends one value. labels are names and values in turn.
func send(out chan<- prometheus.Metric, name, help string, kind prometheus.ValueType, value float64, labels ...string) {
	var names, values []string
	for i := 0; i < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), kind, value, values...)
}
