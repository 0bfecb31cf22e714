package vm

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/digitalocean/go-qemu/qmp"

	"github.com/codeagent/sandbox/tests/kit/guestimage"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// patience is longer than anything takes, on a busy machine too.
const patience = 3 * time.Minute

// initScript is the guest's init: it loads the modules and obeys the lines that
// come over a virtio port.
const initScript = `#!/bin/sh
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for l in list list-network; do while read -r m; do insmod "$m"; done </lib/modules/$l; done
mkdir -p /w
until [ -e /dev/vport0p1 ]; do usleep 10000; done
exec 3<>/dev/vport0p1
cat <&3 | sh >&3 2>&1
`

// machine is a running QEMU.
type machine struct {
	t       *testing.T
	cmd     *exec.Cmd
	ended   chan struct{}
	port    net.Conn
	lines   *bufio.Reader
	monitor qmp.Monitor
	console string
}

// start boots a machine whose folders are behind the sockets; the first is
// mounted at /w.
func start(t *testing.T, sockets ...string) *machine { return startWith(t, nil, sockets...) }

// startWith is start with more arguments for QEMU.
func startWith(t *testing.T, more []string, sockets ...string) *machine {
	t.Helper()
	qemu := require.Program(t, "qemu-system-x86_64", "qemu-system-x86")
	boot := guestimage.Files(t, []byte(initScript))
	dir, err := os.MkdirTemp("", "vm") // short: sockets are in it
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	in := func(name string) string { return filepath.Join(dir, name) }
	m := &machine{t: t, ended: make(chan struct{}), console: in("console")}
	args := []string{"-machine", "q35,accel=tcg,memory-backend=mem", "-cpu", "max", "-m", "256", "-smp", "1",
		"-nodefaults", "-no-user-config", "-display", "none",
		"-object", "memory-backend-memfd,id=mem,size=256M,share=on",
		"-kernel", "/proc/self/fd/3", "-initrd", "/proc/self/fd/4", "-append", "console=ttyS0 quiet panic=-1 no_timer_check",
		"-chardev", "socket,id=cmd,path=" + in("cmd") + ",server=on,wait=off", "-device", "virtio-serial-pci,id=vs0",
		"-device", "virtserialport,bus=vs0.0,chardev=cmd,name=cmd", "-serial", "file:" + m.console,
		"-qmp", "unix:" + in("qmp") + ",server=on,wait=off",
	}
	for i, s := range sockets {
		args = append(args, "-chardev", fmt.Sprintf("socket,id=vfs%d,path=%s", i, s),
			"-device", fmt.Sprintf("vhost-user-fs-pci,chardev=vfs%d,tag=working%d,queue-size=1024", i, i))
	}
	m.cmd = exec.Command(qemu, append(args, more...)...)
	m.cmd.ExtraFiles = []*os.File{boot.Kernel, boot.Initrd}
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said strings.Builder
	m.cmd.Stderr = &said
	check(t, m.cmd.Start())
	go func() {
		defer close(m.ended)
		_ = m.cmd.Wait()
	}()
	t.Cleanup(func() {
		m.kill()
		if said.Len() > 0 {
			t.Logf("QEMU says: %.2000s", said.String())
		}
		if t.Failed() {
			b, _ := os.ReadFile(m.console)
			t.Logf("console:\n%s", b)
		}
	})
	m.port = m.dial(in("cmd"))
	t.Cleanup(func() { m.port.Close() })
	m.lines = bufio.NewReader(m.port)
	m.dial(in("qmp")).Close() // it is there
	m.monitor, err = qmp.NewSocketMonitor("unix", in("qmp"), patience)
	check(t, err)
	check(t, m.monitor.Connect())
	m.booted()
	return m
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (m *machine) dial(path string) net.Conn {
	m.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("unix", path)
		if err == nil {
			return c
		}
		select {
		case <-m.ended:
			m.t.Fatalf("QEMU ended: %v", m.cmd.ProcessState)
		default:
		}
		if time.Now().After(end) {
			m.t.Fatal(err)
		}
	}
}

func (m *machine) kill() {
	_ = m.cmd.Process.Kill()
	<-m.ended
}

// booted waits until the guest obeys, and mounts the folder. What is sent
// before it reads is lost, so it is asked again.
func (m *machine) booted() {
	m.t.Helper()
	began := time.Now()
	for end := began.Add(patience); ; {
		token := fmt.Sprint("ready", time.Now().UnixNano())
		_, err := fmt.Fprintf(m.port, "\necho %s\n", token)
		check(m.t, err)
		if m.await(token, 300*time.Millisecond) {
			break
		}
		if time.Now().After(end) {
			m.t.Fatal("the guest does not boot")
		}
	}
	m.t.Logf("booted in %v", time.Since(began))
	m.run("mount -t virtiofs working0 /w")
}

// await reads until a line.
func (m *machine) await(line string, limit time.Duration) bool {
	check(m.t, m.port.SetReadDeadline(time.Now().Add(limit)))
	for {
		got, err := m.lines.ReadString('\n')
		if err != nil {
			return false
		}
		if strings.TrimSpace(got) == line {
			return true
		}
	}
}

// run runs a line of shell in the guest and returns its output. It must not
// fail.
func (m *machine) run(line string) string {
	m.t.Helper()
	out, status := m.try(line)
	if status != "0" {
		m.t.Fatalf("%s: exit %s\n%s", line, status, out)
	}
	return out
}

func (m *machine) try(line string) (out, status string) {
	m.t.Helper()
	_, err := fmt.Fprintf(m.port, "(%s\n); e=$?; echo; echo \"@@ $e\"\n", line)
	check(m.t, err)
	check(m.t, m.port.SetReadDeadline(time.Now().Add(patience)))
	var b strings.Builder
	for {
		got, err := m.lines.ReadString('\n')
		if err != nil {
			m.t.Fatalf("%s: %v\n%s", line, err, b.String())
		}
		if s, ok := strings.CutPrefix(strings.TrimSpace(got), "@@ "); ok {
			return strings.TrimSpace(b.String()), s
		}
		b.WriteString(got)
	}
}

// qmp runs a command of QEMU's, which must answer soon.
func (m *machine) qmp(command string) {
	m.t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := m.monitor.Run([]byte(`{"execute":"` + command + `"}`))
		done <- err
	}()
	select {
	case err := <-done:
		check(m.t, err)
	case <-time.After(patience):
		m.t.Fatalf("QMP %s: no answer", command)
	}
}
