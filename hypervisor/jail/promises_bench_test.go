//go:build linux

package jail

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/guest/script"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail/places"
)

// BenchmarkPromises makes the view of a jail, gives up all rights in it and tries what it promises, as the first process of each session does, with a
// clock before and after that. The home directory has each known secret, of which a user has a few. It reports the median and the least of all rounds, and
// what as many system calls took that do nothing (getppid).
func BenchmarkPromises(b *testing.B) {
	home, work := b.TempDir(), b.TempDir()
	for _, s := range hypervisor.HomeSecrets() {
		path := filepath.Join(home, s)
		if os.MkdirAll(filepath.Dir(path), 0o755) == nil {
			_ = os.WriteFile(path, nil, 0o600) // one lies below another one
		}
	}
	b.Setenv("HOME", home)
	u, err := chooseAccount(-1, -1)
	if err != nil {
		b.Fatal(err)
	}
	u.Home = home
	listed, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		b.Fatal(err)
	}
	defer listed.Close()
	table, err := places.ParseMounts(listed)
	if err != nil {
		b.Fatal(err)
	}
	p, _, err := makePlan(hypervisor.Config{UID: -1, GID: -1, Shares: []hypervisor.Share{{HostPath: work}}}, u, table, true, "no overlays in a benchmark", nil)
	if err != nil {
		b.Fatal(err)
	}
	p.mapped = false // nobody is there who would send the folder
	var proved, idle []time.Duration
	for b.Loop() {
		took := timedPromises(b, &p)
		proved, idle = append(proved, took[1]-took[0]), append(idle, took[2]-took[1])
	}
	slices.Sort(proved)
	slices.Sort(idle)
	b.ReportMetric(float64(len(p.promises)), "promises")
	b.ReportMetric(float64(proved[len(proved)/2].Microseconds()), "median-µs")
	b.ReportMetric(float64(proved[0].Microseconds()), "least-µs")
	b.ReportMetric(float64(idle[len(idle)/2].Microseconds()), "bare-calls-µs")
}

// timedPromises are the times before a view's promises are tried, after it, and after as many calls that do nothing.
func timedPromises(b *testing.B, p *plan) (at [3]time.Duration) {
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	err = script.Helper(namespaces(false, false), []*os.File{w}, func(w *script.Writer) {
		birth := birth{plan: p, userID: os.Geteuid()}
		v := &viewWriter{Writer: w, plan: p, setup: script.Setup, clones: make(map[string]uintptr), bases: make(map[int]uintptr)}
		v.view()
		birth.dropRights(w)
		var clocks []uintptr
		clock := func() {
			t := w.Words(0, 0)
			w.Call("clock", unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, t)
			clocks = append(clocks, t)
		}
		clock()
		v.prove()
		clock()
		for range p.promises {
			w.Call("getppid", unix.SYS_GETPPID)
		}
		clock()
		for _, t := range clocks {
			w.Call("clock", unix.SYS_WRITE, script.Program, t, 16).Expect(16)
		}
	}, func(pid int, setup control.FDConn) error {
		if err := w.Close(); err != nil {
			return err
		}
		if err := idMap(pid); err != nil {
			return err
		}
		if _, err := setup.Write([]byte{0}); err != nil {
			return err
		}
		var out [3][2]int64 // struct timespec
		if err := binary.Read(r, binary.NativeEndian, &out); err != nil && err != io.EOF {
			return err
		}
		for i, t := range out {
			at[i] = time.Duration(t[0])*time.Second + time.Duration(t[1])
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return at
}
