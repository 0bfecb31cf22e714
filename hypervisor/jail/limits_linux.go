package jail

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/cgroup"
)

// limitSpare is how many processes and threads PID 1 may have beyond what commands may, so that it goes on when
// they have used up theirs.
const limitSpare = 64

// limitKeeper keeps one jail within its limits.
type limitKeeper struct {
	l       hypervisor.Limits
	group   *cgroup.Group // nil: there is none
	missing map[cgroup.Controller]string

	mu      sync.Mutex
	removed bool
	last    cgroup.Usage // what was seen last

	pids processes
}

// newLimits makes what the limits need. folders are working folders: on their disks lies what is read and written.
func newLimits(l hypervisor.Limits, folders []string) (*limitKeeper, error) {
	k := &limitKeeper{l: l}
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &own); err == nil && l.PIDs > 0 {
		k.l.PIDs = int(min(uint64(l.PIDs), max(own.Cur, 1))) // who starts the jail may have no more
	}
	if l.Memory <= 0 && l.MemoryHigh <= 0 && l.MilliCPUs <= 0 && l.IO <= 0 {
		return k, nil
	}
	var err error
	k.group, k.missing, err = cgroup.Make(cgroup.Limits{
		Memory: l.Memory, MemoryHigh: l.MemoryHigh, MilliCPUs: l.MilliCPUs, IO: l.IO, Devices: folders,
	})
	return k, err
}

// Processes is how many processes and threads commands may start; 0 or less: no limit.
func (k *limitKeeper) Processes() int { return k.l.PIDs }

// Add puts the jail's first process under the limits, before it starts anything.
func (k *limitKeeper) Add(pid int) error {
	if k.group == nil {
		return nil
	}
	return k.group.Add(pid)
}

// rlimitOf is a limit that the first process sets for itself and what it starts.
type rlimitOf struct {
	What     string
	Resource uintptr
	Value    uint64
}

// Rlimits are those limits.
func (k *limitKeeper) Rlimits() []rlimitOf {
	var out []rlimitOf
	add := func(what string, resource int, value uint64) {
		var have unix.Rlimit
		if unix.Getrlimit(resource, &have) == nil {
			value = min(value, have.Max) // nobody may raise it
		}
		out = append(out, rlimitOf{what, uintptr(resource), value})
	}
	if k.l.PIDs > 0 {
		add("processes", unix.RLIMIT_NPROC, uint64(k.l.PIDs)+limitSpare)
	}
	if k.l.FileBytes > 0 {
		add("the size of files", unix.RLIMIT_FSIZE, uint64(k.l.FileBytes))
	}
	if _, missing := k.missing[cgroup.Memory]; missing && k.l.Memory > 0 {
		add("memory", unix.RLIMIT_DATA, uint64(k.l.Memory))
	}
	return append(out, limitsShared()...)
}

// Warnings say which limits are not kept, or not as they should be.
func (k *limitKeeper) Warnings() []string {
	var out []string
	for _, c := range slices.Sorted(maps.Keys(k.missing)) {
		text := fmt.Sprintf("there is no limit of %s: no control group for it (%s)", c, k.missing[c])
		if c == cgroup.Memory && k.l.Memory > 0 {
			text = fmt.Sprintf("the limit of memory holds for each process by itself: no control group for it (%s)", k.missing[c])
		}
		out = append(out, text)
	}
	return out
}

// usage is what the jail takes now, or took at its end.
func (k *limitKeeper) usage() cgroup.Usage {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.group != nil && !k.removed {
		k.last = k.group.Usage()
	}
	return k.last
}

// Facts describe the limits and what is taken of them, for people.
func (k *limitKeeper) Facts() map[string]string {
	f := map[string]string{}
	set := func(name string, n int64, unit string) {
		if n > 0 {
			f["limit_"+name] = strconv.FormatInt(n, 10) + unit
		}
	}
	set("pids", int64(k.l.PIDs), "")
	set("memory", k.l.Memory, "")
	set("memory_high", k.l.MemoryHigh, "")
	set("io", k.l.IO, "")
	set("file", k.l.FileBytes, "")
	set("tmp", k.l.TmpBytes, "")
	if k.l.MilliCPUs > 0 {
		f["limit_cpus"] = strconv.FormatFloat(float64(k.l.MilliCPUs)/1000, 'f', -1, 64)
	}
	if k.wasFull() > 0 {
		f["limit_pids_reached"] = "true"
	}
	if k.group == nil {
		return f
	}
	u := k.usage()
	if k.group.Has(cgroup.PIDs) {
		f["pids"] = strconv.Itoa(u.PIDs)
	}
	if k.group.Has(cgroup.Memory) {
		f["memory"], f["memory_peak"] = strconv.FormatInt(u.Memory, 10), strconv.FormatInt(u.MemoryPeak, 10)
		f["oom_kills"] = strconv.FormatInt(u.OOMKills, 10)
	}
	if k.group.Version(cgroup.CPU) == 2 {
		f["cpu_time"] = u.CPU.Round(time.Millisecond).String()
	}
	return f
}

// Close removes the groups. Everything inside is gone.
func (k *limitKeeper) Close() error {
	if k == nil {
		return nil
	}
	k.pids.close()
	if k.group == nil {
		return nil
	}
	k.usage()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.removed = true
	return k.group.Remove()
}

// Watch has the end of a command say which limit ended it.
func (k *limitKeeper) Watch(p hypervisor.Process) hypervisor.Process {
	return &watched{Process: p, k: k, before: k.usage(), full: k.wasFull(), looking: k.look()}
}

type watched struct {
	hypervisor.Process
	k       *limitKeeper
	before  cgroup.Usage
	full    int
	looking func()
}

// Wait implements [hypervisor.Process].
func (w *watched) Wait(ctx context.Context) (hypervisor.ExitStatus, error) {
	st, err := w.Process.Wait(ctx)
	if err == nil || !errors.Is(err, ctx.Err()) {
		st.Limit = w.k.reached(st, w.before, w.full)
		w.looking()
	}
	return st, err
}

// reached says which limits a command has run into, as far as that can be told.
func (k *limitKeeper) reached(st hypervisor.ExitStatus, before cgroup.Usage, full int) string {
	var out []string
	u := k.usage()
	if u.OOMKills > before.OOMKills {
		out = append(out, "memory limit of "+hypervisor.Bytes(k.l.Memory))
	}
	if k.lookedFull() > full {
		out = append(out, fmt.Sprintf("limit of %d processes and threads", k.l.PIDs))
	}
	if k.l.FileBytes > 0 && (st.Signal == int(unix.SIGXFSZ) || st.Code == 128+int(unix.SIGXFSZ)) {
		out = append(out, "file size limit of "+hypervisor.Bytes(k.l.FileBytes))
	}
	return strings.Join(out, ", ")
}
