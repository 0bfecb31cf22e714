package cgroup

import (
	"slices"
	"testing"
)

// TestParse: the tables of machines that mix the versions, and of a container.
func TestParse(t *testing.T) {
	const hybrid = `34 33 0:30 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
35 33 0:31 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
36 33 0:32 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
37 33 0:33 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
38 33 0:34 / /tmp rw,relatime - tmpfs tmpfs rw
`
	list := parse(hybrid, "9:name=systemd:/\n5:memory:/a/b\n4:cpu,cpuacct:/c\n0::/u\nnonsense\n")
	var got []string
	for _, h := range list {
		got = append(got, h.dirs()...)
	}
	want := []string{
		"/sys/fs/cgroup/memory/a/b", "/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/memory",
		"/sys/fs/cgroup/cpu,cpuacct/c", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/unified/u", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// A container sees its part alone, and may be outside of it.
	container := "40 39 0:30 /pod/x /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n"
	if list = parse(container, "0::/pod/x/y\n"); len(list) != 1 || !slices.Equal(list[0].dirs(), []string{"/sys/fs/cgroup/y", "/sys/fs/cgroup"}) {
		t.Errorf("%+v", list)
	}
	if list = parse(container, "0::/elsewhere\n"); len(list) != 1 || list[0].dirs() != nil {
		t.Errorf("%+v", list)
	}
}

// TestDetect: each controller can be used, or there is a reason.
func TestDetect(t *testing.T) {
	for c, s := range Detect() {
		if s.Controller != c || (s.Version == 0) != (s.Why != "") || (s.Version == 0) != (s.Parent == "") {
			t.Errorf("%s: %+v", c, s)
		}
	}
}
