package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// plain is a folder that is simply there: the native one, or a mount that
// somebody else serves.
type plain struct {
	label string
	dir   string
	only  []string // workloads; all if it is empty
	pid   int      // of the process that serves it: 0 nobody, -1 this one
	close func() error
}

func (p *plain) name() string          { return p.label }
func (p *plain) takes(w workload) bool { return len(p.only) == 0 || slices.Contains(p.only, w.name) }
func (p *plain) run(ctx context.Context, script string) (time.Duration, error) {
	return timed(ctx, p.dir, script)
}
func (p *plain) rest(context.Context) error { return nil }
func (p *plain) cpu() time.Duration         { return cpuOf(p.pid) }
func (p *plain) Close() error {
	if p.close == nil {
		return nil
	}
	return p.close()
}

// populated makes a folder with the tree in it.
func (l *lab) populated(ctx context.Context, name string) (string, error) {
	dir, err := l.sub(name)
	if err != nil {
		return "", err
	}
	return dir, command(ctx, dir, "tar", "-xf", l.archive)
}

func newNative(ctx context.Context, l *lab) (side, error) {
	dir, err := l.populated(ctx, "native")
	return &plain{label: "native", dir: dir}, err
}

// examples is where Debian's libfuse3-dev has its sources.
const examples = "/usr/share/doc/libfuse3-dev/examples"

// newPassthrough mounts libfuse's passthrough_ll as it is.
func newPassthrough(ctx context.Context, l *lab) (side, error) {
	return passthrough(ctx, l, "passthrough_ll", "")
}

// newPassthroughXattr has it serve extended attributes as our bridge does. The
// kernel then asks for security.capability, two more requests a file.
func newPassthroughXattr(ctx context.Context, l *lab) (side, error) {
	return passthrough(ctx, l, "passthrough_ll -o xattr", ",xattr")
}

// passthrough compiles passthrough_ll and mounts it.
func passthrough(ctx context.Context, l *lab, name, options string) (side, error) {
	source := filepath.Join(examples, "passthrough_ll.c")
	if _, err := os.Stat(source); err != nil {
		return nil, errors.New("no " + source + ": apt-get install libfuse3-dev")
	}
	program := filepath.Join(l.scratch, "passthrough_ll")
	if err := command(ctx, examples, "sh", "-ec",
		"gcc -O2 -Wall -D_GNU_SOURCE "+source+" -o "+program+" $(pkg-config --cflags --libs fuse3)"); err != nil {
		return nil, err
	}
	dir, err := l.sub(name)
	if err != nil {
		return nil, err
	}
	mount := filepath.Join(l.scratch, "mount of "+name)
	if err := os.Mkdir(mount, 0o755); err != nil {
		return nil, err
	}
	// It caches as we do. It holds a descriptor for each inode it knows, and
	// fails without telling why when there are no more: it gets an empty folder
	// and only what it is compared in.
	cmd := exec.Command("sh", "-c", `ulimit -n $(ulimit -Hn); exec "$@"`, "sh",
		program, "-f", "-o", "source="+dir+",cache=always,timeout=600,default_permissions"+options, mount)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	p := &plain{label: name, dir: mount, pid: cmd.Process.Pid, only: []string{"untar", "rm -rf"}, close: func() error {
		err := unix.Unmount(mount, unix.MNT_DETACH)
		if werr := <-ended; err == nil {
			err = werr
		}
		return err
	}}
	for range 200 {
		if mounted(mount) {
			return p, nil
		}
		select {
		case err := <-ended:
			return nil, fmt.Errorf("passthrough_ll ended: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	_ = cmd.Process.Kill()
	return nil, errors.New("passthrough_ll did not mount within 2 s")
}

// mounted reports whether dir is on another file system than its parent.
func mounted(dir string) bool {
	var a, b unix.Stat_t
	return unix.Stat(dir, &a) == nil && unix.Stat(filepath.Dir(dir), &b) == nil && a.Dev != b.Dev
}

// cpuOf returns the processor time, user and system, that a process has used:
// this one if pid is -1.
func cpuOf(pid int) time.Duration {
	clock := int32(unix.CLOCK_PROCESS_CPUTIME_ID)
	switch {
	case pid == 0:
		return 0
	case pid > 0:
		clock = ^int32(pid)<<3 | unix.CLOCK_PROCESS_CPUTIME_ID // clock_getcpuclockid(3)
	}
	var t unix.Timespec
	if unix.ClockGettime(clock, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
