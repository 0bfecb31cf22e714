//go:build unix

package control

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// TestRegistrations: only who runs is listed, and nothing stays of who was
// killed, at whatever moment of its start or end.
func TestRegistrations(t *testing.T) {
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	dead, alive := gone.Process.Pid, os.Getpid()
	dir, err := os.MkdirTemp("", "reg") // short: sockets are in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := func(name string) string { return filepath.Join(dir, name) }
	listen := func(name string) *net.UnixListener {
		t.Helper()
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: file(name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	register := func(session string, pid int) {
		t.Helper()
		r := Registration{PID: pid, Session: session, Socket: SocketFile(dir, session), Directories: []string{"/" + session}}
		if err := r.Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	register("runs", alive)
	listen("runs.sock")
	register("starts", alive)
	register("reused", alive) // its number is that of another process now
	old := time.Now().Add(-2 * startupTime)
	if err := os.Chtimes(file("reused.json"), old, old); err != nil {
		t.Fatal(err)
	}
	register("zombie", alive) // killed, and its parent has not noticed
	_ = listen("zombie.sock").Close()
	register("killed-early", dead)
	_ = listen("killed-early.sock.new").Close()
	register("killed", dead)
	_ = listen("killed.sock").Close()
	for _, name := range []string{"a.json." + strconv.Itoa(dead), "b.json." + strconv.Itoa(alive), "c.json.x"} {
		if err := os.WriteFile(file(name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	list := Sessions(dir)
	if len(list) != 1 || list[0].Session != "runs" || list[0].PID != alive {
		t.Errorf("sessions: %+v", list)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{"b.json." + strconv.Itoa(alive), "c.json.x", "runs.json", "runs.sock", "starts.json"}
	slices.Sort(want)
	if !slices.Equal(left, want) {
		t.Errorf("left: %q, want %q", left, want)
	}
}
