package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// imageBytes is the size of the image, which is sparse.
const imageBytes = 12 << 30

// lab is where things are measured: an empty directory on a fresh file system,
// and an archive of the tree outside of it.
type lab struct {
	dir     string // on the file system to measure
	scratch string // elsewhere: archives, scripts, programs
	archive string
	files   int
	kind    string
	choice  choice
	closers []func() error
}

// newLab makes a lab. Close it.
func newLab(ctx context.Context) (_ *lab, err error) {
	l := &lab{}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	base := "/dev/shm"
	if os.Geteuid() != 0 || unix.Access(base, unix.W_OK) != nil {
		base = ""
	}
	if l.scratch, err = os.MkdirTemp(base, "sandbox-bench-"); err != nil {
		return l, err
	}
	l.closers = append(l.closers, func() error { return os.RemoveAll(l.scratch) })
	// Not below /dev/shm, of which a jail has its own.
	if l.dir, err = os.MkdirTemp("/var/tmp", "sandbox-bench-"); err != nil {
		return l, err
	}
	l.closers = append(l.closers, func() error { return os.RemoveAll(l.dir) })
	if err = errors.Join(os.Chmod(l.scratch, 0o755), os.Chmod(l.dir, 0o755)); err != nil {
		return l, err
	}
	if base != "" {
		if err = l.mountImage(ctx); err != nil {
			return l, err
		}
	}
	return l, l.makeArchive(ctx)
}

func (l *lab) mountImage(ctx context.Context) error {
	image := filepath.Join(l.scratch, "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(image, imageBytes); err != nil {
		return err
	}
	for _, argv := range [][]string{
		// Everything initialised now: no background thread works during a run.
		{"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", image},
		{"mount", "-o", "loop", image, l.dir},
	} {
		if err := command(ctx, "", argv...); err != nil {
			return err
		}
	}
	l.closers = append(l.closers, func() error { return unix.Unmount(l.dir, 0) })
	l.kind = "fresh ext4 on a loop device in /dev/shm"
	return os.Remove(filepath.Join(l.dir, "lost+found"))
}

// makeArchive packs the Go sources.
func (l *lab) makeArchive(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	goroot := strings.TrimSpace(string(out))
	l.archive = filepath.Join(l.scratch, "src.tar")
	if err := command(ctx, "", "tar", "--sort=name", "-C", goroot, "-cf", l.archive, "src"); err != nil {
		return err
	}
	list, err := exec.CommandContext(ctx, "tar", "-tf", l.archive).Output()
	if err != nil {
		return err
	}
	for name := range strings.Lines(string(list)) {
		if !strings.HasSuffix(name, "/\n") {
			l.files++
		}
	}
	if l.kind == "" {
		var st unix.Statfs_t
		if err := unix.Statfs(l.dir, &st); err != nil {
			return err
		}
		l.kind = fmt.Sprintf("a temporary directory on file system type 0x%x (as root: a fresh image)", st.Type)
	}
	return nil
}

// sub makes a directory in the lab.
func (l *lab) sub(name string) (string, error) {
	dir := filepath.Join(l.dir, name)
	return dir, os.MkdirAll(dir, 0o755)
}

// Close removes everything.
func (l *lab) Close() error {
	var errs []error
	for i := len(l.closers) - 1; i >= 0; i-- {
		errs = append(errs, l.closers[i]())
	}
	l.closers = nil
	return errors.Join(errs...)
}

func (l *lab) facts() map[string]string {
	var uts unix.Utsname
	_ = unix.Uname(&uts)
	return map[string]string{
		"kernel":      unix.ByteSliceToString(uts.Release[:]),
		"file system": l.kind,
		"tree":        fmt.Sprintf("%d files", l.files),
		"user":        fmt.Sprint("uid ", os.Geteuid()),
	}
}

// command runs a program in dir; its output is in the error if it fails.
func command(ctx context.Context, dir string, argv ...string) error {
	if dir != "" {
		// Not by Dir: this process may be the one that serves it, and would wait
		// in fork for a child that waits for an answer.
		argv = append([]string{"env", "-C", dir}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = environ()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		text := out.String()
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, text[max(0, len(text)-2000):])
	}
	return nil
}

// environ is the same for every side, and git's configuration is nobody's.
func environ() []string {
	return []string{
		"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=/nonexistent", "LC_ALL=C",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=b", "GIT_AUTHOR_EMAIL=b@example.org", "GIT_COMMITTER_NAME=b", "GIT_COMMITTER_EMAIL=b@example.org",
		"GIT_CONFIG_COUNT=3", "GIT_CONFIG_KEY_0=gc.auto", "GIT_CONFIG_VALUE_0=0",
		"GIT_CONFIG_KEY_1=maintenance.auto", "GIT_CONFIG_VALUE_1=false",
		"GIT_CONFIG_KEY_2=safe.directory", "GIT_CONFIG_VALUE_2=*",
	}
}

// timed runs a script natively and returns how long it took.
func timed(ctx context.Context, dir, script string) (time.Duration, error) {
	unix.Sync()
	start := time.Now()
	err := command(ctx, dir, "sh", "-ec", script)
	return time.Since(start), err
}
