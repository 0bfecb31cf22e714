package vm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/direct"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// work is what a guest does to the folder in one step.
const work = `set -e; cd /w
echo changed > a; echo more >> b; dd if=/dev/zero of=big bs=64k count=40 conv=fsync 2>/dev/null
mkdir d d/e; mv old/f d/e/g; rm -r old; ln a hard; ln -s ../a d/sym; chmod 600 b; touch -d @1000000000 b
mkfifo pipe; truncate -s 5 c; mv c c2; rmdir empty
mkdir many; i=0; while [ $i -lt 200 ]; do echo $i > many/f$i; i=$((i+1)); done
tar cf t.tar many; rm -r many; tar xf t.tar
[ "$(cat many/f77)" = 77 ]; [ "$(ls many | wc -l)" = 200 ]; [ "$(readlink d/sym)" = ../a ]; [ "$(stat -c %h a)" = 2 ]
exec 3<>u; echo gone >&3; rm u; [ "$(cat /proc/self/fd/3)" = gone ]; exec 3>&-
sync`

// TestVirtioFS (VF-04): one machine's life on a folder that is served to it.
func TestVirtioFS(t *testing.T) {
	require.Root(t) // in one of CI's passes
	base, err := os.MkdirTemp("", "vfs")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(base) })
	host, socket := filepath.Join(base, "host"), filepath.Join(base, "s")
	check(t, os.MkdirAll(filepath.Join(host, "old"), 0o755))
	check(t, os.Mkdir(filepath.Join(host, "empty"), 0o755))
	for name, content := range map[string]string{"a": "first", "b": "second", "c": strings.Repeat("c", 100_000), "old/f": "f"} {
		check(t, os.WriteFile(filepath.Join(host, name), []byte(content), 0o644))
	}
	var m *machine
	s, err := direct.Open(t.Context(), direct.Options{Dir: host, Undo: filepath.Join(base, "undo"), Socket: socket,
		Sync: func(context.Context) error {
			select {
			case <-m.ended: // and the bridge may not know yet
			default:
				m.run("sync")
			}
			return nil
		}})
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	m = start(t, socket)
	before := treesnap.MustTake(t, host)

	began := time.Now()
	_, err = s.Step(t.Context(), "work", func() error { m.run(work); return nil })
	check(t, err)
	t.Logf("worked in %v", time.Since(began))
	if b, err := os.ReadFile(filepath.Join(host, "many/f123")); err != nil || string(b) != "123\n" {
		t.Errorf("the host has %q, %v", b, err)
	}
	check(t, s.Undo(t.Context(), 1))
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, host))
	m.run("echo 3 > /proc/sys/vm/drop_caches; cd /w; [ $(cat a) = first ] && [ -d empty ] && [ ! -e many ] && [ $(cat old/f) = f ]")

	if _, status := m.try("echo x > /w/outside_of_a_step"); status == "0" {
		t.Error("a write without protection succeeded")
	}
	_, err = s.Step(t.Context(), "load", func() error { underLoad(t, m, host); return nil })
	check(t, err)
	reboots(t, m, s, host)

	// The emulator dies under load, another comes.
	_, err = s.Step(t.Context(), "die", func() error {
		m.run(load)
		works(t, host)
		m.kill()
		return nil
	})
	check(t, err)
	if n := s.Bridge.InFlight(); n > 1 {
		t.Errorf("%d requests in flight without a guest", n)
	}
	m = start(t, socket)
	if got := m.run("cat /w/a"); got != "first" {
		t.Errorf("the new machine reads %q", got)
	}
	m.run("umount /w && mount -t virtiofs working0 /w && ls /w >/dev/null")
	fmt.Fprintln(m.port, "poweroff -f")
	select {
	case <-m.ended:
	case <-time.After(patience):
		t.Error("the guest cannot power off")
	}
	check(t, s.Undo(t.Context(), 3))
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, host))
}

// load writes, reads and removes files until the file stop is there.
const load = `mkdir -p /w/load; rm -f /w/load/stop; for j in 1 2 3; do (while [ ! -e /w/load/stop ]; do
dd if=/dev/urandom of=/w/load/$j bs=16k count=8 2>/dev/null; md5sum /w/load/$j > /w/load/$j.sum; md5sum -c /w/load/$j.sum >/dev/null || echo $j >> /w/load/bad
mv /w/load/$j /w/load/$j.old; echo . >> /w/load/$j.count; done) & done >/dev/null 2>&1 </dev/null; true`

// works waits until the load goes on.
func works(t *testing.T, host string) {
	t.Helper()
	rounds := func() (n int64) {
		for j := 1; j <= 3; j++ {
			if st, err := os.Stat(filepath.Join(host, "load", fmt.Sprintf("%d.count", j))); err == nil {
				n += st.Size()
			}
		}
		return n
	}
	was := rounds()
	for end := time.Now().Add(patience); rounds() == was; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the guest does not go on")
		}
	}
}

// underLoad: the machine is paused and goes on, again and again, while it
// works; nothing is lost and QEMU never hangs.
func underLoad(t *testing.T, m *machine, host string) {
	m.run(load)
	for range 20 {
		m.qmp("stop")
		m.qmp("cont")
		works(t, host)
	}
	m.run("touch /w/load/stop; wait; sync")
	if b, err := os.ReadFile(filepath.Join(host, "load/bad")); err == nil {
		t.Errorf("corrupted: %s", b)
	}
}

// reboots: the guest reboots while it works, by itself and by force.
func reboots(t *testing.T, m *machine, s *direct.Session, host string) {
	_, err := s.Step(t.Context(), "reboot", func() error {
		m.run(load)
		works(t, host)
		m.qmp("system_reset")
		m.booted()
		m.run(load)
		works(t, host)
		fmt.Fprintln(m.port, "reboot -f")
		m.booted()
		return nil
	})
	check(t, err)
	if out := m.run("cat /w/a"); out != "first" {
		t.Errorf("after two reboots: %q", out)
	}
}
