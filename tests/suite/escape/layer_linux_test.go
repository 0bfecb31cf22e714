package escape

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/filters"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// layered are attempts that the view alone does not withstand: Landlock has to. FIFO is one of the host
// in a directory that is visible and read-only; input says what standard input is.
var layered = []struct {
	name, input, script string
	version             int // of Landlock, the first that withstands it
}{
	{"a FIFO", "", "echo x >FIFO", filters.LandlockRenames},
	{"a FIFO, both ways", "", "exec 3<>FIFO && echo x >&3", filters.LandlockRenames},
	{"a FIFO through our own root", "", "echo x >/proc/self/rootFIFO", filters.LandlockRenames},
	{"a FIFO through a symlink in the folder", "", "ln -sfn FIFO WORK/way && echo x >WORK/way", filters.LandlockRenames},
	{"a FIFO that was opened for reading", "", "exec 3<FIFO && echo x >/proc/self/fd/3", filters.LandlockRenames},
	{"the file of standard input", "file", "echo x >>/proc/self/fd/0", filters.LandlockRenames},
	{"the file of standard input, by its name", "file", "exec 3<>/dev/stdin && echo x >&3", filters.LandlockRenames},
	{"cutting the file of standard input", "file", "ATTACK truncate /proc/self/fd/0", filters.LandlockTruncate},
	{"cutting it by an opening for reading", "file", "ATTACK cut /proc/self/fd/0", filters.LandlockTruncate},
	{"cutting it by an opening for neither", "file", "ATTACK cut3 /proc/self/fd/0", filters.LandlockTruncate},
	{"cutting it by openat2", "file", "ATTACK cut2 /proc/self/fd/0", filters.LandlockTruncate},
	{"cutting it while a name is changed", "file", "ATTACK cutrace /proc/self/fd/0 TRIES", filters.LandlockTruncate},
}

// unfed are attempts on what a command is not given at all: a directory, and a socket that can be connected.
var unfed = []struct{ name, input, script string }{
	{"a file in the directory of standard input", "dir", "echo x >/proc/self/fd/0/kept"},
	{"a new file in it", "dir", "echo x >/proc/self/fd/0/new"},
	{"a new directory in it", "dir", "mkdir /proc/self/fd/0/new"},
	{"a symlink in it", "dir", "ln -s / /proc/self/fd/0/new"},
	{"a FIFO in it", "dir", "mkfifo /proc/self/fd/0/new"},
	{"another name in it", "dir", "mv /proc/self/fd/0/kept /proc/self/fd/0/new"},
	{"a second name in it", "dir", "ATTACK link /proc/self/fd/0/kept /proc/self/fd/0/new"},
	{"removing what is in it", "dir", "rm /proc/self/fd/0/kept"},
	{"an abstract socket of the host, by a socket of its network", "socket", "ATTACK reach NAME"},
}

// den is what the workload is given, or sees, of the host.
type den struct {
	*prey
	fifo, dir string
	reader    int // of the FIFO, which does not block
}

func newDen(t *testing.T, change func(*api.Config)) *den {
	d := &den{prey: newPrey(t, change)}
	d.fifo, d.dir = d.home+"/beside/fifo", d.home+"/given"
	must(t, unix.Mkfifo(d.fifo, 0o600))
	must(t, os.Chmod(d.fifo, 0o666))
	var err error
	d.reader, err = unix.Open(d.fifo, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { _ = unix.Close(d.reader) })
	return d
}

// furnish makes the directory that is given as it was at first.
func (d *den) furnish(t *testing.T) {
	must(t, os.RemoveAll(d.dir))
	put(t, d.dir+"/kept", "kept")
	must(t, os.Chmod(d.dir+"/kept", 0o666))
	must(t, os.Chmod(d.dir, 0o777))
}

// input opens what a command is given as its standard input.
func (d *den) input(t *testing.T, kind string) *os.File {
	var f *os.File
	var err error
	switch kind {
	case "":
		f, err = os.Open(os.DevNull)
	case "file":
		f, err = os.Open(d.dir + "/kept")
	case "dir":
		f, err = os.Open(d.dir)
	case "socket":
		var fd int
		fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		f = os.NewFile(uintptr(fd), "socket")
	}
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// changed says what of the host was changed, or is empty.
func (d *den) changed(t *testing.T) string {
	var all []string
	if n, _ := unix.Read(d.reader, make([]byte, 10)); n > 0 {
		all = append(all, "the FIFO")
	}
	if b, err := os.ReadFile(d.dir + "/kept"); err != nil || string(b) != "kept" {
		all = append(all, fmt.Sprintf("the file: %q, %v", b, err))
	}
	if _, err := os.Lstat(d.dir + "/new"); err == nil {
		all = append(all, "the directory")
	}
	return strings.Join(all, ", ")
}

// fed runs a script with a standard input to its end.
func (l *lab) fed(script string, in *os.File) result {
	l.t.Helper()
	r, w, err := os.Pipe()
	must(l.t, err)
	defer r.Close()
	out := make(chan string, 1)
	go func() { b, _ := io.ReadAll(r); out <- string(b) }()
	res, err := l.Run(l.t.Context(), api.RunRequest{Argv: []string{"sh", "-c", script}, Stdin: in, Stdout: w, Stderr: w, Timeout: patience})
	w.Close()
	return result{RunResult: res, out: <-out, err: err}
}

// TestLayer: what a read-only view does not keep from being written, Landlock does, in jails over each
// bridge; and what a version of Landlock does not know, or where there is none, is withstood by nothing else: so that the attempts
// are real ones.
func TestLayer(t *testing.T) {
	kernel, err := filters.LandlockVersion()
	if err != nil {
		require.Missing(t, "Landlock ("+err.Error()+")", "a kernel with CONFIG_SECURITY_LANDLOCK")
	}
	layer := func(version int, b hypervisor.Bridge) {
		t.Run(fmt.Sprintf("%s, version %d", b, version), func(t *testing.T) {
			d := newDen(t, func(c *api.Config) {
				c.Bridge, c.Runtime = b, jail.New(jail.Options{Umask: 0o022, Landlock: func() int { return version }})
			})
			for _, a := range layered {
				t.Run(a.name, func(t *testing.T) { d.try(t, a.input, a.script, version >= a.version) })
			}
			for _, a := range unfed {
				t.Run(a.name, func(t *testing.T) { d.refused(t, a.input, a.script) })
			}
			d.unharmed(t)
		})
	}
	for _, version := range []int{0, filters.LandlockRenames, filters.LandlockTruncate, kernel} {
		if version <= kernel {
			layer(version, hypervisor.BridgeFUSE)
		}
	}
	if kernel >= filters.LandlockTruncate {
		layer(kernel, hypervisor.BridgeMediated)
	}
}

// give runs a script with an input.
func (d *den) give(t *testing.T, input, script string) result {
	d.furnish(t)
	vars := strings.NewReplacer("FIFO", d.fifo, "WORK", d.work, "NAME", d.name, "ATTACK", filepath.Join(d.work, program)+" attack", "TRIES", strconv.Itoa(require.Tries(t, 3000)))
	return d.fed(vars.Replace(script), d.input(t, input))
}

// refused checks that a command does not start with such an input.
func (d *den) refused(t *testing.T, input, script string) {
	r := d.give(t, input, script)
	if changed := d.changed(t); r.err == nil || !strings.Contains(r.err.Error(), "standard input") || changed != "" {
		t.Errorf("%s: %+v (%v); changed: %s", script, r, r.err, changed)
	}
}

// try runs one attempt.
func (d *den) try(t *testing.T, input, script string, withstood bool) {
	r := d.give(t, input, script)
	changed := d.changed(t)
	t.Log(r.out, changed)
	if r.err != nil || withstood != (r.Status.Code != 0) || withstood && changed != "" {
		t.Errorf("%s: %+v; changed: %s", script, r, changed)
	}
}
