package socket

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/require"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("SOCKET_TEST_LISTEN"); path != "" {
		l, err := net.Listen("unix", path)
		if err != nil {
			os.Exit(1)
		}
		_, _ = os.Stdout.WriteString("listening\n")
		_, _ = l.Accept()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestW9Trusted: a session of this user's is believed, and what runs in namespaces of its own, as commands do, is not.
func TestW9Trusted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	dial := func() *net.UnixConn {
		t.Helper()
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c.(*net.UnixConn)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := Trusted(dial()); err != nil {
		t.Error(err)
	}
	_ = l.Close()

	require.UserNamespaces(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "SOCKET_TEST_LISTEN="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := Trusted(dial()); !errors.Is(err, ErrStranger) {
		t.Errorf("in a namespace of its own: %v", err)
	}
	_ = cmd.Wait()
}
