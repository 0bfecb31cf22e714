//go:build linux

package jail_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestW7BoundSockets: sockets that somebody outside listens on when the jail starts cannot be reached, by whatever name they were bound
// and whatever name they have now, in directories that are shown as the host has them, written, or below an overlay; over each bridge. One that is shown can.
func TestW7BoundSockets(t *testing.T) {
	python := systemPython(t)
	for _, mediated := range []bool{false, true} {
		t.Run(fmt.Sprint("mediated ", mediated), func(t *testing.T) {
			home := ownHome(t)
			hosts := boundOutside(t, home)
			if !require.SocketInodes() {
				t.Log("the kernel has no CONFIG_UNIX_DIAG: sockets are known by their names alone")
				hosts = map[string]bool{"there/plain": true, "there/shown": false}
			}
			var a answering
			j := start(t, func(c *hypervisor.Config) {
				c.Places = hypervisor.Places{Store: filepath.Join(t.TempDir(), "store"), Home: true, Writable: []string{filepath.Join(home, ".written")}}
				c.Show = []string{filepath.Join(home, "there/shown")}
				if mediated {
					a.mediated(t)(c)
				}
			})
			for name, covered := range hosts {
				out, st, err := j.run(python, "-c", "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])", filepath.Join(home, name))
				if err != nil || (st.Code == 0) == covered {
					t.Errorf("%s: connecting returned %d, %v: %s", name, st.Code, err, out)
				}
			}
			inside := "import socket; s = socket.socket(socket.AF_UNIX); s.bind('/tmp/own'); s.listen(); socket.socket(socket.AF_UNIX).connect('/tmp/own'); print('met')"
			if out, _, err := j.run(python, "-c", inside); err != nil || strings.TrimSpace(out) != "met" {
				t.Errorf("a socket inside: %q, %v", out, err)
			}
		})
	}
}

// boundOutside listens on sockets below home, and returns whether each must be covered.
func boundOutside(t *testing.T, home string) map[string]bool {
	t.Helper()
	listen := func(path string) {
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		t.Cleanup(func() { l.Close() })
		must(t, os.Chmod(path, 0o777))
	}
	in := func(name string) string { return filepath.Join(home, name) }
	for _, dir := range []string{"there", "elsewhere/deep/down", ".layered/deep", ".written/deep"} {
		must(t, os.MkdirAll(in(dir), 0o755))
	}
	listen(in("there/plain"))
	listen(in("there/shown"))
	listen(in("there/before"))
	must(t, os.Rename(in("there/before"), in("there/renamed")))
	listen(in("there/moved"))
	must(t, os.Rename(in("there/moved"), in("elsewhere/deep/moved")))
	must(t, os.Chmod(in(".written"), 0o777))
	for _, dot := range []string{".layered", ".written"} {
		listen(in(dot + "/first"))
		must(t, os.Rename(in(dot+"/first"), in(dot+"/deep/moved")))
	}
	listen(in("there/linked.1"))
	must(t, os.Link(in("there/linked.1"), in("there/linked")))
	must(t, os.Remove(in("there/linked.1")))
	listen(in("there/one"))
	must(t, os.Link(in("there/one"), in("elsewhere/two")))
	was, err := os.Getwd()
	must(t, err)
	must(t, os.Chdir(in("elsewhere/deep/down")))
	listen("relative")
	must(t, os.Chdir(was))
	return map[string]bool{
		"there/plain": true, "there/shown": false, "there/renamed": true, "elsewhere/deep/moved": true, "there/linked": true,
		".layered/deep/moved": true, ".written/deep/moved": true, "there/one": true, "elsewhere/two": true, "elsewhere/deep/down/relative": true,
	}
}
