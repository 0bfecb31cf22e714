package gate

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxBelow = 4096              // processes that are listed, at most
	tick     = time.Second / 100 // USER_HZ, the unit of times in /proc on every platform that we run on
)

// Below returns what runs below the guest's first process, the oldest first; that process is not one of them, nor what it has to start
// commands. Numbers inside are those of its pid namespace.
func (r *ProcessReader) Below(first int, now time.Time) []RunningProcesses {
	top, ok := readStatus(first)
	if !ok {
		return nil
	}
	known := processes()
	booted := now.Add(-uptime())
	var list []RunningProcesses
	until := time.Now().Add(callerPatience)
	for pid, s := range known {
		if !callerBelow(known, pid, first) || len(list) == maxBelow || s.parent == first && s.ours() {
			continue
		}
		v := RunningProcesses{PID: pid, Inside: numbered(s, top), Parent: numbered(known[s.parent], top), Name: name(s.name, "")}
		if v.Inside == 0 || !v.times(booted) {
			continue // it has ended
		}
		if up := known[s.parent]; s.parent == first || up.parent == first && up.ours() {
			v.Parent = 0
		}
		v.CommandLine = commandLine(r.arguments(pid, until))
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b RunningProcesses) int {
		if c := a.Started.Compare(b.Started); c != 0 {
			return c
		}
		return a.PID - b.PID
	})
	return list
}

// processes are all of this host that can be seen.
func processes() map[int]status {
	known := map[int]status{}
	d, err := os.Open("/proc")
	if err != nil {
		return known
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1) // a part is as good
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			if s, ok := readStatus(pid); ok {
				known[pid] = s
			}
		}
	}
	return known
}

// callerBelow reports whether a process descends from another.
func callerBelow(known map[int]status, pid, ancestor int) bool {
	for range len(known) { // numbers may have been given anew while they were read: there may be a circle
		s, ok := known[pid]
		if !ok || s.parent == ancestor {
			return ok
		}
		pid = s.parent
	}
	return false
}

// numbered is a process's number in the pid namespace of another; 0 if it has none there.
func numbered(s, in status) int {
	if len(s.numbers) < len(in.numbers) {
		return 0
	}
	return s.numbers[len(in.numbers)-1]
}

// times reads how much of a processor a process has had, and when it began.
func (v *RunningProcesses) times(booted time.Time) bool {
	data, err := os.ReadFile(proc(v.PID, "stat"))
	if err != nil {
		return false
	}
	_, rest, ok := strings.Cut(string(data[max(0, bytes.LastIndexByte(data, ')')):]), " ") // the name may hold anything
	fields := strings.Fields(rest)
	const state, user, system, start = 0, 11, 12, 19
	if !ok || len(fields) <= start {
		return false
	}
	var ticks [3]int64
	for i, f := range []int{user, system, start} {
		if ticks[i], err = strconv.ParseInt(fields[f], 10, 64); err != nil {
			return false
		}
	}
	v.State = fields[state]
	v.CPU = time.Duration(ticks[0]+ticks[1]) * tick
	v.Started = booted.Add(time.Duration(ticks[2]) * tick)
	return true
}

// uptime is how long this machine, or the container that this is, has run.
func uptime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // it fails for a clock that is not there
	return time.Duration(t.Nano())
}
