package jail

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// identity is what /proc says of a process or thread.
type identity struct {
	parent int
	pids   []int // its number in each pid namespace, from the host's inwards
}

// readIdentity reads /proc/WHO/status, which needs no rights.
func readIdentity(who string) (identity, error) {
	var id identity
	data, err := os.ReadFile("/proc/" + who + "/status")
	if err != nil {
		return id, err
	}
	for line := range bytes.Lines(data) {
		key, value, _ := strings.Cut(string(line), ":")
		if key == "PPid" {
			if id.parent, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return id, err
			}
		}
		if key != "NSpid" {
			continue
		}
		for _, f := range strings.Fields(value) {
			n, err := strconv.Atoi(f)
			if err != nil {
				return id, err
			}
			id.pids = append(id.pids, n)
		}
	}
	return id, nil
}

// inside returns the number that the thread has in a namespace of this depth.
func (id identity) inside(depth int) int {
	if len(id.pids) < depth {
		return 0
	}
	return id.pids[depth-1]
}

// hostPID translates the number of a thread in the pid namespace of process first, which
// is PID 1 there, to ours. Whatever lives in it descends from PID 1.
func hostPID(first int, pid uint32) (uint32, error) {
	gone := fmt.Errorf("jail: thread %d: %w", pid, os.ErrProcessDone)
	one, err := readIdentity(strconv.Itoa(first))
	if err != nil {
		return 0, gone // and everything with it
	}
	depth := len(one.pids)
	names, err := numbers("/proc")
	if err != nil {
		return 0, err
	}
	known := make(map[int]identity)
	for _, name := range names {
		if id, err := readIdentity(name); err == nil {
			n, _ := strconv.Atoi(name)
			known[n] = id
		}
	}
	unsure := false
	for n, id := range known {
		if id.inside(depth) == 0 {
			continue
		}
		ours, sure := descends(known, n, first)
		if !ours && sure {
			continue
		}
		t := n
		if id.inside(depth) != int(pid) {
			t = thread(n, depth, int(pid))
		}
		switch {
		case t != 0 && ours:
			return uint32(t), nil
		case t != 0:
			unsure = true
		}
	}
	if unsure {
		return 0, errors.New("jail: the processes changed meanwhile; look again")
	}
	return 0, gone
}

// descends reports whether process n has the ancestor. It is not sure when a
// parent on the way has ended since.
func descends(known map[int]identity, n, ancestor int) (is, sure bool) {
	for range len(known) {
		if n == ancestor {
			return true, true
		}
		id, ok := known[n]
		if !ok {
			return false, false
		}
		if id.parent == 0 {
			return false, true
		}
		n = id.parent
	}
	return false, false
}

// thread returns the thread of process n that has the number pid inside, or 0.
func thread(n, depth, pid int) int {
	dir := strconv.Itoa(n) + "/task"
	tasks, err := numbers("/proc/" + dir)
	if err != nil {
		return 0
	}
	for _, name := range tasks {
		if id, err := readIdentity(dir + "/" + name); err == nil && id.inside(depth) == pid {
			t, _ := strconv.Atoi(name)
			return t
		}
	}
	return 0
}

// numbers lists the names in a directory of /proc that are numbers.
func numbers(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	out := names[:0]
	for _, name := range names {
		if _, err := strconv.Atoi(name); err == nil {
			out = append(out, name)
		}
	}
	return out, nil
}

// threadsOf returns how many threads a process and those below it have, as far as
// that can be seen: 0 if the kernel lacks the lists (CONFIG_PROC_CHILDREN).
func threadsOf(pid int) int {
	n := 0
	for left := []string{strconv.Itoa(pid)}; len(left) > 0; {
		p := left[len(left)-1]
		left = left[:len(left)-1]
		threads, err := numbers("/proc/" + p + "/task")
		if err != nil {
			continue // it has ended
		}
		n += len(threads)
		for _, tid := range threads {
			list, err := os.ReadFile("/proc/" + p + "/task/" + tid + "/children")
			if errors.Is(err, fs.ErrNotExist) && p == strconv.Itoa(pid) && tid == p {
				return 0
			}
			left = append(left, strings.Fields(string(list))...)
		}
	}
	return n
}
