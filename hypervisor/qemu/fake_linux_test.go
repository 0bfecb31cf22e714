package qemu

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/guest/shim"
)

// fakeName is the program name under which this test's program plays QEMU, with
// a guest in it that behaves as "fake=..." of the kernel's command line says.
const fakeName = "fake-qemu"

// fakeProgram is the path of the fake, which the emulator's user may start.
var fakeProgram string

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == fakeName {
		syscall.Exit(fakeQEMU(os.Args[1:])) // at once: os.Exit lingers under the race detector
	}
	// Before any test: whoever forks while the copy is written keeps it busy.
	dir, err := copySelf()
	if err != nil {
		panic(err)
	}
	fakeProgram = filepath.Join(dir, fakeName)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func copySelf() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "fake-qemu-"); err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, fakeName), self, 0o755)
}

// fake is a QEMU that was started with a command line.
type fake struct {
	control, console net.Conn
	monitor          chan net.Conn // the one who connects
}

func fakeQEMU(args []string) int {
	if slices.Contains(args, "-L") {
		return 0
	}
	if slices.Contains(args, "-S") {
		fmt.Fprintln(os.Stderr, "fake: no KVM")
		return 1
	}
	at := map[string]string{}
	way := ""
	for i, a := range args {
		switch a {
		case "-chardev":
			o := strings.Split(args[i+1], ",")
			at[strings.TrimPrefix(o[1], "id=")] = o[2]
		case "-netdev":
			if _, path, named := strings.Cut(args[i+1], "addr.path="); named {
				defer connected("path=" + path).Close()
			}
		case "-append":
			_, way, _ = strings.Cut(args[i+1], "fake=")
		}
	}
	for _, name := range []string{"-kernel", "-initrd"} { // as QEMU does: by name, and as its user
		b, err := os.ReadFile(args[slices.Index(args, name)+1])
		if err != nil || len(b) == 0 {
			fmt.Fprintf(os.Stderr, "fake: %s: %d bytes, %v\n", name, len(b), err)
			return 1
		}
	}
	f := fake{control: connected(at["control"]), console: connected(at["console"]), monitor: make(chan net.Conn, 1)}
	go func() {
		var l net.Listener
		var err error
		if path, named := strings.CutPrefix(at["monitor"], "path="); named {
			l, err = net.Listen("unix", path)
		} else {
			l, err = net.FileListener(passed(at["monitor"]))
		}
		if err != nil {
			panic(err)
		}
		c, err := l.Accept()
		if err != nil {
			panic(err)
		}
		f.monitor <- c
	}()
	return f.play(way)
}

// passed is the descriptor of an end.
func passed(end string) *os.File {
	fd, err := strconv.Atoi(strings.TrimPrefix(end, "fd="))
	if err != nil {
		panic(err)
	}
	return os.NewFile(uintptr(fd), "inherited")
}

// connected is the connection of an end.
func connected(end string) (c net.Conn) {
	path, named := strings.CutPrefix(end, "path=")
	var err error
	if named {
		c, err = net.Dial("unix", path)
	} else {
		f := passed(end)
		defer f.Close() // the connection has a duplicate
		c, err = net.FileConn(f)
	}
	if err != nil {
		panic(err)
	}
	return c
}

// obey greets who connects to the monitor and answers commands, if it shall.
func (f fake) obey(answer bool) {
	c := <-f.monitor
	fmt.Fprintln(c, `{"QMP": {"version": {"qemu": {"micro": 0, "minor": 0, "major": 9}, "package": "fake"}, "capabilities": []}}`)
	go func() {
		defer c.Close()
		for in := json.NewDecoder(c); ; {
			var cmd struct {
				Execute string `json:"execute"`
			}
			if in.Decode(&cmd) != nil {
				return
			}
			if cmd.Execute != "qmp_capabilities" && !answer {
				continue
			}
			fmt.Fprintln(c, `{"return": {}}`)
			if cmd.Execute == "qmp_capabilities" {
				f.monitor <- c
			}
			if event := map[string]string{"stop": "STOP", "cont": "RESUME"}[cmd.Execute]; event != "" {
				fmt.Fprintf(c, "{\"timestamp\": {\"seconds\": 1, \"microseconds\": 2}, \"event\": %q}\n", event)
			}
		}
	}()
}

func (f fake) event(reason string) {
	fmt.Fprintf(<-f.monitor, "{\"timestamp\": {\"seconds\": 1, \"microseconds\": 2}, \"event\": \"SHUTDOWN\", \"data\": {\"guest\": true, \"reason\": %q}}\n", reason)
}

func (f fake) hello(version int) {
	fmt.Fprintf(f.control, "{\"type\":\"hello\",\"version\":%d,\"warnings\":[\"a fake\"]}\n", version)
}

// wait for the host to end it.
func (f fake) wait() int {
	_, _ = io.Copy(io.Discard, f.control)
	for {
		_ = unix.Pause()
	}
}

func (f fake) play(way string) int {
	switch way {
	case "refuses":
		fmt.Fprintln(os.Stderr, "fake: cannot set up guest memory 'mem': Cannot allocate memory")
		return 1
	case "hangs":
		fmt.Fprintln(f.console, "[    0.1] waiting for\x1b[31m godot")
		return f.wait()
	case "panics":
		f.obey(true)
		fmt.Fprintln(f.console, "[    0.9] no root\r\n[    1.0] Kernel panic - not syncing: VFS: Unable to mount root fs\r\n[    1.1] Call Trace:")
		f.event("guest-reset")
		return 0
	case "no-monitor":
		f.hello(control.Version)
		return f.wait()
	}
	f.obey(way != "deaf-monitor")
	if _, err := control.ReadMachinePlan(f.control); err != nil {
		fmt.Fprintln(os.Stderr, "fake:", err)
		return 1
	}
	switch way {
	case "old":
		f.hello(control.Version + 1)
	case "cannot":
		fmt.Fprintln(f.control, `{"type":"error","error":"mounting the persistent disk: bad message\u001b[2J"}`)
		return 0
	case "floods":
		f.hello(control.Version)
		for {
			if _, err := io.WriteString(f.control, "{\"type\":\"output\",\"id\":77,\"stream\":\"stdout\",\"data\":\"x\"}\n"); err != nil {
				return 1
			}
		}
	case "babbles":
		for {
			if _, err := io.WriteString(f.control, "\x00\xffabc\n"); err != nil {
				return 1
			}
		}
	case "half":
		f.hello(control.Version)
		fmt.Fprint(f.control, `{"type":"step_started","id":`)
	case "half-and-closes":
		f.hello(control.Version)
		fmt.Fprint(f.control, `{"type":"step_started","id":`)
		f.control.Close()
	case "switches-off":
		f.hello(control.Version)
		f.event("guest-shutdown")
		return 0
	default: // a guest as it should be
		if err := shim.Serve(f.control, shim.Options{}); err != nil {
			fmt.Fprintln(os.Stderr, "fake:", err)
		}
		return 0
	}
	return f.wait()
}
