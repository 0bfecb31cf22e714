//go:build linux

package jail_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/cgroup"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// bomb starts processes that stay, until it is refused one, or has 300.
const bomb = `import os, time
n, made = 0, []
try:
    while n < 300:
        made.append(os.fork())
        if made[-1] == 0:
            os.closerange(0, 3) # else who reads the output waits for us
            time.sleep(1000)
            os._exit(0)
        n += 1
except OSError as e:
    print(n, e.strerror)
for p in made:
    os.kill(p, 9)
    os.waitpid(p, 0)
`

// TestLimitPIDs: a fork bomb gets no further than the limit, takes nothing from another session of the user,
// and the session goes on when it has ended.
func TestLimitPIDs(t *testing.T) {
	require.Program(t, "python3", "python3")
	other := start(t, nil)
	j := start(t, func(c *hypervisor.Config) { c.Limits.PIDs = 60 })
	out, st, err := j.run("sh", "-c", "printf '%s' \"$1\" >bomb.py; python3 bomb.py", "sh", bomb)
	n, _, _ := strings.Cut(out, " ")
	if started, _ := strconv.Atoi(n); err != nil || started < 20 || started > 60 || !strings.Contains(out, "temporarily unavailable") {
		t.Errorf("the bomb: %q, status %d, %v", out, st.Code, err)
	}
	if _, st, err := j.run("true"); err != nil || st.Code != 0 || st.Limit != "" {
		t.Errorf("the next command: %+v, %v", st, err)
	}
	other.sh("for i in 1 2 3 4 5; do sh -c true & done; wait")
	j.sh("grep -q '^Max processes *60 *124 ' /proc/self/limits")
}

// TestForkBombIsNamed: the end of a command says that the limit of processes was used up: if that is so at its end, or
// was for a while.
func TestForkBombIsNamed(t *testing.T) {
	const limit = "limit of 60 processes and threads"
	j := start(t, func(c *hypervisor.Config) { c.Limits.PIDs = 60 })
	if f := j.Facts()["limit_pids_reached"]; f != "" {
		t.Errorf("before: %q", f)
	}
	_, st, err := j.run("sh", "-c", "sh -c 'while sleep 1000 & do :; done' >/dev/null 2>&1; exit 3")
	if err != nil || st.Limit != limit {
		t.Errorf("the bomb that stays: %+v, %v", st, err)
	}
	if f := j.Facts()["limit_pids_reached"]; f != "true" {
		t.Errorf("afterwards: %q", f)
	}
	j = start(t, func(c *hypervisor.Config) { c.Limits.PIDs = 60 })
	ended := make(chan hypervisor.ExitStatus, 1)
	go func() {
		_, st, _ := j.run("sh", "-c", "sh -c 'while sleep 1000 & do :; done' >/dev/null 2>&1; while ! [ -e go ]; do :; done; kill -9 -1")
		ended <- st
	}()
	actortest.Eventually(t, "the bomb is noticed while its command runs", func() bool { return j.Facts()["limit_pids_reached"] == "true" })
	if err := os.WriteFile(filepath.Join(j.dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if st := actortest.Within(t, "its end", ended); st.Limit != limit {
		t.Errorf("the bomb that has gone: %+v", st)
	}
	actortest.Eventually(t, "they have gone", func() bool {
		n, err := j.Guest.(hypervisor.ProcessCounter).Processes()
		return err == nil && n == 0
	})
	if _, st, err := j.run("true"); err != nil || st.Code != 0 || st.Limit != "" {
		t.Errorf("the next command: %+v, %v", st, err)
	}
}

const hog = "x = []\nwhile True: x.append(bytearray(1 << 20))"

// TestLimitMemory: a process that uses too much is ended, and its command's end says so. Without a control group,
// each process by itself gets no more, and a warning says so.
func TestLimitMemory(t *testing.T) {
	require.Program(t, "python3", "python3")
	need(t)
	j := start(t, func(c *hypervisor.Config) { c.Limits.Memory = 256 << 20 })
	s := cgroup.Detect()[cgroup.Memory]
	if s.Version == 0 {
		j.refused("python3 -c '"+hog+"'", "MemoryError")
		if w := j.Facts()["warnings"]; !strings.Contains(w, "for each process by itself") {
			t.Errorf("warnings: %q, though there is no control group: %s", w, s.Why)
		}
		return
	}
	_, st, err := j.run("python3", "-c", hog)
	if err != nil || st.Signal != 9 || st.Limit != "memory limit of 256 MiB" {
		t.Errorf("the hog: %+v, %v", st, err)
	}
	if _, st, err = j.run("true"); err != nil || st.Code != 0 || st.Limit != "" {
		t.Errorf("the next command: %+v, %v", st, err)
	}
	f := j.Facts()
	if f["limit_memory"] != strconv.Itoa(256<<20) || f["oom_kills"] == "" || f["oom_kills"] == "0" || f["memory"] == "" {
		t.Errorf("facts: %v", f)
	}
	own := filepath.Join(s.Parent, "sandbox-"+strconv.Itoa(os.Getpid())+"-*")
	if list, _ := filepath.Glob(own); len(list) != 1 {
		t.Errorf("groups: %v", list)
	}
	stop(t, j)
	if list, _ := filepath.Glob(own); len(list) != 0 {
		t.Errorf("left: %v", list)
	}
}

// TestLimitDisk: what fills places in memory, and files, gets no further than its limit.
func TestLimitDisk(t *testing.T) {
	home := ownHome(t)
	j := start(t, func(c *hypervisor.Config) {
		c.Limits.TmpBytes, c.Limits.FileBytes = 1<<20, 4<<20
		c.Places = hypervisor.Places{Store: filepath.Join(t.TempDir(), "store"), Home: true}
	})
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm", home} {
		j.refused("head -c 3000000 /dev/zero >"+dir+"/.x", "No space left")
	}
	_, st, err := j.run("head", "-c", "9000000", "/dev/zero")
	if err != nil || st.Code != 0 {
		t.Errorf("what goes to a pipe: %+v, %v", st, err)
	}
	_, st, err = j.run("sh", "-c", "exec head -c 9000000 /dev/zero >f")
	if info, serr := os.Stat(filepath.Join(j.dir, "f")); err != nil || st.Limit != "file size limit of 4 MiB" || serr != nil || info.Size() > 4<<20 {
		t.Errorf("what goes to the folder: %+v, %v (%v, %v)", st, err, info, serr)
	}
}

// TestLimitsAreFound: programs that look for their limits as Java and Go do (the table of mounts, their own groups, and of the two the directory) find the group they are in,
// wherever they do outside, and in it the session's limit of memory.
func TestLimitsAreFound(t *testing.T) {
	const limit = 256 << 20
	j := start(t, func(c *hypervisor.Config) { c.Limits.Memory = limit })
	read := func(path string) string {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	outside := groupDirs(read("/proc/self/mountinfo"), read("/proc/self/cgroup"))
	inside := groupDirs(j.sh("cat /proc/self/mountinfo"), j.sh("cat /proc/self/cgroup"))
	for name := range outside {
		if dir := inside[name]; dir == "" {
			t.Errorf("inside, the group of %q is in none of the mounts", name)
		} else {
			j.sh("[ -e '" + dir + "/cgroup.procs' ]")
		}
	}
	switch cgroup.Detect()[cgroup.Memory].Version {
	case 1:
		j.sh("grep -qx " + strconv.Itoa(limit) + " '" + inside["memory"] + "/memory.limit_in_bytes'")
	case 2:
		j.sh("grep -qx " + strconv.Itoa(limit) + " '" + inside[""] + "/memory.max'")
	}
}

// groupDirs are the directories of a process's groups by their controllers' names (of version 2: ""), from its table of mounts and its groups. A mount that does not hold the
// group is left out, and so is one of a controller that has one.
func groupDirs(mountinfo, groups string) map[string]string {
	dirs := map[string]string{}
	for line := range strings.Lines(mountinfo) {
		f, kind, _ := strings.Cut(line, " - ")
		mount, super := strings.Fields(f), strings.Fields(kind)
		if super[0] != "cgroup" && super[0] != "cgroup2" {
			continue
		}
		for group := range strings.Lines(groups) {
			g := strings.SplitN(strings.TrimSpace(group), ":", 3)
			if g[1] != "" && super[0] == "cgroup2" || g[1] == "" && super[0] == "cgroup" || g[1] != "" && !strings.HasSuffix(super[2], g[1]) {
				continue
			}
			rest, ok := strings.CutPrefix(g[2], strings.TrimSuffix(mount[3], "/"))
			if _, found := dirs[g[1]]; ok && !found {
				dirs[g[1]] = filepath.Join(mount[4], rest)
			}
		}
	}
	return dirs
}
