package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// prefix of the names of groups.
const prefix = "sandbox-"

// cpuPeriod is over which time a limit of processor time holds, in microseconds.
const cpuPeriod = 100_000

// removePatience is how long the kernel may take to notice that a group is empty.
const removePatience = 2 * time.Second

var groups atomic.Int64

// Group is a group, in one directory or in one for each controller of version 1.
type Group struct {
	dirs map[Controller]directory
	all  []string // distinct
}

type directory struct {
	path    string
	version int
}

// Make makes a group with those of the limits that can be had. missing says of the others why they cannot.
// The group is nil if there are none.
func Make(l Limits) (g *Group, missing map[Controller]string, err error) {
	missing = map[Controller]string{}
	g = &Group{dirs: map[Controller]directory{}}
	name := fmt.Sprintf("%s%d-%s-%d", prefix, os.Getpid(), started(os.Getpid()), groups.Add(1))
	support := Detect()
	for _, c := range Controllers() {
		s := support[c]
		if s.Version == 0 {
			if l.needs()[c] {
				missing[c] = s.Why
			}
			continue
		}
		if !l.needs()[c] && c == IO { // the others give figures
			continue
		}
		err := g.join(s, name)
		if err == nil {
			err = g.limit(c, l)
		}
		if err != nil && l.needs()[c] {
			missing[c] = err.Error()
		}
	}
	if len(g.all) == 0 {
		return nil, missing, nil
	}
	return g, missing, nil
}

// join makes the group in the hierarchy of a controller.
func (g *Group) join(s Support, name string) error {
	if s.Version == 2 && !slices.Contains(words(filepath.Join(s.Parent, "cgroup.subtree_control")), string(s.Controller)) {
		if err := write(s.Parent, "cgroup.subtree_control", "+"+string(s.Controller)); err != nil {
			return err
		}
	}
	sweep(s.Parent)
	dir := filepath.Join(s.Parent, name)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	g.dirs[s.Controller] = directory{dir, s.Version}
	if real, err := filepath.EvalSymlinks(dir); err == nil && !slices.Contains(g.all, real) {
		g.all = append(g.all, real)
	}
	return nil
}

// limit sets what the limits say of a controller.
func (g *Group) limit(c Controller, l Limits) error {
	d := g.dirs[c]
	set := func(file string, value int64) error {
		if value <= 0 {
			return nil
		}
		return write(d.path, file, strconv.FormatInt(value, 10))
	}
	switch {
	case c == PIDs:
		return set("pids.max", int64(l.PIDs))
	case c == Memory && d.version == 2:
		err := errors.Join(set("memory.high", l.MemoryHigh), set("memory.max", l.Memory))
		if l.Memory > 0 { // what is swapped out is not less
			_ = write(d.path, "memory.swap.max", "0") // there is none without swap
		}
		return err
	case c == Memory:
		err := errors.Join(set("memory.soft_limit_in_bytes", l.MemoryHigh), set("memory.limit_in_bytes", l.Memory))
		_ = set("memory.memsw.limit_in_bytes", l.Memory)
		return err
	case c == CPU && l.MilliCPUs > 0 && d.version == 2:
		return write(d.path, "cpu.max", fmt.Sprintf("%d %d", l.MilliCPUs*cpuPeriod/1000, cpuPeriod))
	case c == CPU && l.MilliCPUs > 0:
		return errors.Join(set("cpu.cfs_period_us", cpuPeriod), set("cpu.cfs_quota_us", int64(l.MilliCPUs)*cpuPeriod/1000))
	case c == IO && l.IO > 0:
		return limitIO(d, l)
	}
	return nil
}

func limitIO(d directory, l Limits) error {
	var errs []error
	for _, path := range l.Devices {
		disk, err := diskOf(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if d.version == 2 {
			errs = append(errs, write(d.path, "io.max", fmt.Sprintf("%s rbps=%d wbps=%d", disk, l.IO, l.IO)))
			continue
		}
		for _, file := range []string{"blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"} {
			errs = append(errs, write(d.path, file, fmt.Sprintf("%s %d", disk, l.IO)))
		}
	}
	return errors.Join(errs...)
}

// diskOf is the number of the disk, not of the partition, that holds path.
func diskOf(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "", &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	number := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	sys, err := filepath.EvalSymlinks("/sys/dev/block/" + number)
	if err != nil {
		return "", fmt.Errorf("%s lies on no disk (device %s)", path, number)
	}
	if _, err := os.Stat(filepath.Join(sys, "partition")); err == nil {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(sys), "dev"))
		return strings.TrimSpace(string(data)), err
	}
	return number, nil
}

// Add puts a process into the group. What it starts from then on is in it, too.
func (g *Group) Add(pid int) error {
	for _, dir := range g.all {
		if err := write(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

// Has reports whether a controller limits the group, or counts for it.
func (g *Group) Has(c Controller) bool {
	_, ok := g.dirs[c]
	return ok
}

// Version is the version of the controller, or 0.
func (g *Group) Version(c Controller) int { return g.dirs[c].version }

// Usage reads what the processes take.
func (g *Group) Usage() Usage {
	var u Usage
	if d, ok := g.dirs[PIDs]; ok {
		u.PIDs = int(number(d.path, "pids.current", ""))
		u.Refused = number(d.path, "pids.events", "max")
	}
	if d, ok := g.dirs[Memory]; ok && d.version == 2 {
		u.Memory, u.MemoryPeak = number(d.path, "memory.current", ""), number(d.path, "memory.peak", "")
		u.OOMKills = number(d.path, "memory.events", "oom_kill")
	} else if ok {
		u.Memory, u.MemoryPeak = number(d.path, "memory.usage_in_bytes", ""), number(d.path, "memory.max_usage_in_bytes", "")
		u.OOMKills = number(d.path, "memory.oom_control", "oom_kill")
	}
	for _, c := range []Controller{CPU, PIDs, Memory, IO} {
		if d, ok := g.dirs[c]; ok && d.version == 2 { // where any group has it
			u.CPU = time.Duration(number(d.path, "cpu.stat", "usage_usec")) * time.Microsecond
			break
		}
	}
	return u
}

// Remove removes the group, whose processes have ended.
func (g *Group) Remove() error {
	var errs []error
	for _, dir := range g.all {
		err := os.Remove(dir)
		for end := time.Now().Add(removePatience); errors.Is(err, unix.EBUSY) && time.Now().Before(end); err = os.Remove(dir) {
			time.Sleep(time.Millisecond) // the kernel gives no notice in version 1
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// sweep removes the groups of processes that were killed.
func sweep(parent string) {
	list, err := filepath.Glob(filepath.Join(parent, prefix+"*-*-*"))
	if err != nil {
		return
	}
	for _, dir := range list {
		f := strings.Split(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		pid, err := strconv.Atoi(f[0])
		if err == nil && len(f) == 3 && started(pid) != f[1] {
			_ = os.Remove(dir) // it fails while there are processes in it
		}
	}
}

// started is when a process started, in the kernel's words, or empty.
func started(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	if f := strings.Fields(rest); len(f) > 19 {
		return f[19]
	}
	return ""
}

func write(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// number reads a file with a number, or the number after a key; 0 if there is none.
func number(dir, file, key string) int64 {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if key != "" && len(f) == 2 && f[0] == key {
			f = f[1:]
		} else if key != "" {
			continue
		}
		if len(f) == 1 {
			n, _ := strconv.ParseInt(f[0], 10, 64)
			return n
		}
	}
	return 0
}
