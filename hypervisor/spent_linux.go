package hypervisor

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// cpuTick is the unit of the times of processes.
	cpuTick = 10 * time.Millisecond
	// maxCounted is how many processes are looked at.
	maxCounted = 10_000
)

// TreeCPUTime is how much time of processors a process and all below it have had, with those that have ended and whose parents know it; false: there is no such process. What comes and goes while it is counted may be missing.
func TreeCPUTime(first int) (time.Duration, bool) {
	var ticks int64
	list := []int{first}
	for i := 0; i < len(list) && i < maxCounted; i++ {
		n, ok := cpuTicks(list[i])
		if !ok && i == 0 {
			return 0, false
		}
		ticks += n
		list = append(list, childrenOf(list[i])...)
	}
	return time.Duration(ticks) * cpuTick, true
}

// cpuTicks reads what a process has had, and what those of its children had that it has waited for.
func cpuTicks(pid int) (sum int64, ok bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	_, rest, _ := strings.Cut(string(data[max(0, bytes.LastIndexByte(data, ')')):]), " ") // the name may hold anything
	fields := strings.Fields(rest)
	const user, childrensSystem = 11, 14
	if len(fields) <= childrensSystem {
		return 0, false
	}
	for _, f := range fields[user : childrensSystem+1] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, false
		}
		sum += n
	}
	return sum, true
}

// childrenOf lists the children of a process, whichever thread has made them.
func childrenOf(pid int) (list []int) {
	tasks := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return nil // it has ended
	}
	for _, t := range threads {
		data, _ := os.ReadFile(tasks + "/" + t.Name() + "/children") // so has the thread
		for word := range strings.FieldsSeq(string(data)) {
			if child, err := strconv.Atoi(word); err == nil {
				list = append(list, child)
			}
		}
	}
	return list
}
