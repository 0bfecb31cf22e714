package e2b

import (
	"net/http"
	"runtime"
	"strings"
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
	CPUUsedPct    float64   `json:"cpuUsedPct"` // not known: 0
	MemUsed       int64     `json:"memUsed"`
	MemTotal      int64     `json:"memTotal"`
	MemCache      int64     `json:"memCache"`
	DiskUsed      int64     `json:"diskUsed"`
	DiskTotal     int64     `json:"diskTotal"`
}

// measure is the use of the machine now: sandboxes share it, and have no measure of their own.
func (s *Server) measure() metric {
	u, now := s.usage(s.o.Root), s.o.Clock.Now().UTC()
	return metric{
		Timestamp: now, TimestampUnix: now.Unix(), CPUCount: runtime.NumCPU(), MemUsed: u.memoryUsed, MemTotal: u.memory, DiskUsed: u.diskUsed, DiskTotal: u.disk,
	}
}

// metricsOfOne answers with the measures of a sandbox: the one of now.
func (s *Server) metricsOfOne(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.named(r); err != nil {
		return err
	}
	wire.Answer(w, http.StatusOK, []metric{s.measure()})
	return nil
}

// metricsOfAll answers with the measures of several.
func (s *Server) metricsOfAll(w http.ResponseWriter, r *http.Request) error {
	now := s.measure()
	all := map[string]metric{}
	for id := range strings.SplitSeq(r.URL.Query().Get("sandbox_ids"), ",") {
		if s.sandbox(id) != nil {
			all[id] = now
		}
	}
	wire.Answer(w, http.StatusOK, map[string]any{"sandboxes": all})
	return nil
}
