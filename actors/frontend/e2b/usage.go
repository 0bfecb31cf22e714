package e2b

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
)

// usage is what there is of the machine, in bytes; 0 is not known.
type usage struct {
	memory, memoryUsed int64
	disk, diskUsed     int64
}

// metric is what a client is told of the use of a machine.
type metric struct {
	Timestamp     time.Time `json:"timestamp"`
	TimestampUnix int64     `json:"timestampUnix"`
	CPUCount      int       `json:"cpuCount"`
	CPUUsedPct    float64   `json:"cpuUsedPct"` // of all processors together; 0 if it is not known
	MemUsed       int64     `json:"memUsed"`
	MemTotal      int64     `json:"memTotal"`
	MemCache      int64     `json:"memCache"`
	DiskUsed      int64     `json:"diskUsed"`
	DiskTotal     int64     `json:"diskTotal"`
}

// measure is the use of the machine now: sandboxes share it, and have no measure of their own but for processors. The disk is that of a path. p is nil for one that does not run.
func (s *Server) measure(ctx context.Context, path string, p *place) metric {
	u, now := s.usage(path), s.o.Clock.Now().UTC()
	m := metric{
		Timestamp: now, TimestampUnix: now.Unix(), CPUCount: runtime.NumCPU(), MemUsed: u.memoryUsed, MemTotal: u.memory, DiskUsed: u.diskUsed, DiskTotal: u.disk,
	}
	if p != nil {
		m.CPUUsedPct = p.spent(ctx, now)
	}
	return m
}

// minLook is how much time there is at least between two looks at processors: in less there are too few ticks of the kernel's clock.
const minLook = time.Second

// meter looks at the time of processors that a sandbox has had.
type meter struct {
	mu   sync.Mutex
	at   time.Time     // of the last look
	had  time.Duration // by then
	used float64       // between the last two looks
}

// spent is how much of all processors the sandbox has taken since the last look, or since its start, in percent.
func (p *place) spent(ctx context.Context, now time.Time) float64 {
	m := &p.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	passed := now.Sub(m.at)
	if passed < minLook {
		return m.used
	}
	had, err := p.live.CPUTime(ctx)
	if err != nil {
		return 0
	}
	share := float64(max(0, had-m.had)) / float64(passed) / float64(runtime.NumCPU()) // a runtime that has started afresh has had less
	m.at, m.had, m.used = now, had, 100*min(share, 1)
	return m.used
}

// metricsOfOne answers with the measures of a sandbox: the one of now.
func (s *Server) metricsOfOne(w http.ResponseWriter, r *http.Request) error {
	sb, err := s.named(r)
	if err != nil {
		return err
	}
	_, p, _ := sb.look()
	wire.Answer(w, http.StatusOK, []metric{s.measure(r.Context(), s.o.Root, p)})
	return nil
}

// metricsOfAll answers with the measures of several.
func (s *Server) metricsOfAll(w http.ResponseWriter, r *http.Request) error {
	all := map[string]metric{}
	for id := range strings.SplitSeq(r.URL.Query().Get("sandbox_ids"), ",") {
		if sb := s.sandbox(id); sb != nil {
			_, p, _ := sb.look()
			all[id] = s.measure(r.Context(), s.o.Root, p)
		}
	}
	wire.Answer(w, http.StatusOK, map[string]any{"sandboxes": all})
	return nil
}

// metricsOfThis answers with the measures of the one sandbox that there is, whatever it is called.
func (s *Server) metricsOfThis(w http.ResponseWriter, r *http.Request) error {
	p := placeOf(r)
	if err := p.admit(r); err != nil {
		return err
	}
	wire.Answer(w, http.StatusOK, []metric{s.measure(r.Context(), p.home, p)})
	return nil
}
