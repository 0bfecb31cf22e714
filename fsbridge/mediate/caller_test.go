//go:build linux

package mediate

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
)

// TestMBNumberUsedAgain: what is remembered of a thread that has ended is not believed of
// another that has its number now.
func TestMBNumberUsedAgain(t *testing.T) {
	dead := exec.Command("sh", "-c", "umask 777; echo set; read line || true")
	stdin, err := dead.StdinPipe()
	check(t, err)
	out, err := dead.StdoutPipe()
	check(t, err)
	check(t, dead.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	check(t, err)
	known := newCallers()
	defer known.Close()
	former, errno := known.Get(uint32(dead.Process.Pid))
	if errno != 0 {
		t.Fatal(errno)
	}
	for range 2 { // it has a pidfd then
		if !former.Alive() {
			t.Error("a thread that lives has gone")
		}
	}
	if mask, errno := known.UmaskOf(former); mask != 0o777 || errno != 0 {
		t.Fatalf("umask %o, %v", mask, errno)
	}
	known.Put(former, false)
	stdin.Close()
	check(t, dead.Wait())

	// Now the number is ours.
	self := uint32(os.Getpid())
	known.Mistake(former, self)
	var looked rawInfo
	var flags int
	if former.Alive() || known.Descriptor(former, 0, &looked, &flags) {
		t.Error("a thread that has ended is alive")
	}
	c := &call{s: &Server{threads: known}}
	c.n.PID = self
	defer c.release()
	check(t, c.masked())
	if c.umask == 0o777 || c.th == former {
		t.Errorf("umask %o of a thread that has ended", c.umask)
	}
	c.release()
	fd, errno := c.procFile(rawCwd, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	defer rawClose(fd)
	var got, want rawInfo
	rawLook(fd, rawEmpty, &got)
	rawLook(atCwd, rawName(".\x00"), &want)
	if got.ID != want.ID {
		t.Error("another working directory")
	}
}
