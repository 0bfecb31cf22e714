package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/screen"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// live starts a session in the background, which is stopped at the end.
func (d *desk) live(args ...string) api.SessionInfo {
	d.t.Helper()
	d.must(append([]string{"start"}, args...)...)
	d.t.Cleanup(func() {
		if out, err := d.sandbox("stop").CombinedOutput(); err != nil && !strings.Contains(string(out), "no session has") {
			d.t.Errorf("stop: %v\n%s", err, out)
		}
	})
	list := d.sessions()
	if len(list) != 1 {
		d.t.Fatalf("sessions: %+v", list)
	}
	return list[0]
}

func (d *desk) sessions() (list []api.SessionInfo) {
	d.t.Helper()
	if err := json.Unmarshal([]byte(d.must("ps", "--json")), &list); err != nil {
		d.t.Fatal(err)
	}
	return list
}

// status of a command that has ended.
func exitOf(t *testing.T, err error) int {
	t.Helper()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	if err == nil {
		return 0
	}
	return ended.ExitCode()
}

// openFiles are those of a process that are not files or directories: these are
// the folder's and the log's, which are kept for a while.
func openFiles(t *testing.T, pid int) (open []string) {
	t.Helper()
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrPermission) && os.Getuid() != 0 {
		return nil // the supervisor shows them to root alone, who counts them in the other pass
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && (!strings.HasPrefix(to, "/") || strings.HasPrefix(to, "/dev/")) {
			open = append(open, to)
		}
	}
	return open
}

// keeps waits until a process has no more descriptors than before: that of the
// connection by which it was last asked goes a moment later. It may have a few more pidfds, of the threads
// that called last.
func keeps(t *testing.T, pid int, before []string) {
	t.Helper()
	const called = 16
	count := func(open []string) (pidfds, others int) {
		for _, d := range open {
			if d == "anon_inode:[pidfd]" {
				pidfds++
			}
		}
		return pidfds, len(open) - pidfds
	}
	pidfds, others := count(before)
	var now []string
	defer func() {
		if t.Failed() {
			t.Logf("now: %q", now)
		}
	}()
	actortest.Eventually(t, fmt.Sprintf("no more descriptors than before: %q", before), func() bool {
		now = openFiles(t, pid)
		p, o := count(now)
		return p <= pidfds+called && o <= others
	})
}

// rests waits until nobody is connected but the one who asks: then no command runs
// or waits.
func (d *desk) rests() {
	d.t.Helper()
	actortest.Eventually(d.t, "the session at rest", func() bool {
		out := d.must("inspect", "--json")
		return strings.Contains(out, `"connections": "1"`) && strings.Contains(out, `"state": "idle"`)
	})
}

// A joined command on a terminal: size, raw mode, keys, the modes as before.
func TestJoinedTerminal(t *testing.T) {
	d := newDesk(t)
	d.live()
	d.write("editor", `stty -icanon -icrnl -isig -echo min 1
trap 'new=1; stty size | tr "\n" " "' WINCH
printf 'size '; stty size | tr "\n" " "; printf 'ready '
until [ $new ]; do sleep 0.02; done # a signal that comes just before a read does not end it
while :; do read k && break; done
echo "$k" >key
stty sane
`)
	s := screen.On(t, d.sandbox("run", "--", "sh", "editor"))
	before := screen.FreshModes(t)
	s.Expect("size 24 80 ")
	s.Expect("ready ")
	if m := s.Modes(); m.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) != 0 {
		t.Errorf("the user's terminal is not raw while the command runs: lflag %x", m.Lflag)
	}
	s.Resize(50, 132)
	s.Expect("50 132 ")
	s.Send("q\n")
	s.Expect("1 path changed, undo with: sandbox undo")
	if code := s.Wait(); code != 0 {
		t.Errorf("exit %d\n%s", code, s.Text())
	}
	if m := s.Modes(); m != before {
		t.Errorf("modes afterwards %+v, before %+v", m, before)
	}
	// A command that ends at once shows all that it wrote.
	s = screen.On(t, d.sandbox("run", "--", "echo", "short and complete"))
	s.Expect("short and complete")
	if code := s.Wait(); code != 0 {
		t.Errorf("exit %d", code)
	}
	// Job control inside, and Ctrl-C for the command.
	s = screen.On(t, d.sandbox("run", "--", "bash", "--norc", "-i"))
	s.Send("PS1='> '; sh -c 'echo be\"\"gun; read y; echo \"end $y\"'\r")
	jobControl(t, s)
}

// The terminal of a joined command goes away: the command ends, even one that
// ignores HUP and TERM, and its step is closed.
func TestJoinedHangUp(t *testing.T) {
	d := newDesk(t)
	d.live()
	s := screen.On(t, d.sandbox("run", "--", "sh", "-c", "trap '' HUP TERM; echo x >made; echo ready; while :; do read y; done"))
	s.Expect("ready")
	s.HangUp()
	s.Wait()
	d.rests()
	d.must("undo")
	if d.exists("made") {
		t.Error("undo left the file")
	}
}

// Who waits because no more commands may run is told so, on a terminal; and gives up
// with Ctrl-C, of which it dies, and which leaves nothing in the queue.
func TestJoinedWaits(t *testing.T) {
	d := newDesk(t)
	d.write("codeagent.toml", "[commands]\nat_once = 1\n")
	d.live()
	first := d.sandbox("run", "--", "sh", "-c", ">ready; while ! [ -e go ]; do sleep 0.02; done")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	actortest.Eventually(t, "the first command", func() bool { return d.exists("ready") })
	s := screen.On(t, d.sandbox("run", "--", "echo", "my turn"))
	s.Expect("waiting: as many commands run as may (1; step 1: sh -c '>ready;")
	for _, c := range []struct {
		sig, dies syscall.Signal // of which it dies, as its command would have
		code      int            // else
	}{{syscall.SIGINT, syscall.SIGINT, -1}, {syscall.SIGTERM, syscall.SIGTERM, -1}, {syscall.SIGHUP, -1, 129}} {
		gaveUp := d.sandbox("run", "--", "touch", "never")
		if err := gaveUp.Start(); err != nil {
			t.Fatal(err)
		}
		actortest.Eventually(t, "two in the queue", func() bool { return strings.Contains(d.must("inspect", "--json"), `"queue": "2"`) })
		if err := gaveUp.Process.Signal(c.sig); err != nil {
			t.Fatal(err)
		}
		code := exitOf(t, gaveUp.Wait())
		if died := gaveUp.ProcessState.Sys().(syscall.WaitStatus).Signal(); code != c.code || died != c.dies {
			t.Errorf("who gave up by %v: exit %d, want %d; died of %v, want %v", c.sig, code, c.code, died, c.dies)
		}
		actortest.Eventually(t, "one in the queue", func() bool { return strings.Contains(d.must("inspect", "--json"), `"queue": "1"`) })
	}
	d.write("go", "")
	s.Expect("my turn")
	if code := s.Wait(); code != 0 {
		t.Errorf("exit %d\n%s", code, s.Text())
	}
	if err := first.Wait(); err != nil {
		t.Error(err)
	}
	if d.exists("never") {
		t.Error("the command that was given up has run")
	}
}

// Signals reach a joined command, and its status comes back.
func TestJoinedSignals(t *testing.T) {
	d := newDesk(t)
	d.live()
	for _, c := range []struct {
		sig  syscall.Signal
		code int
	}{{syscall.SIGUSR1, 10}, {syscall.SIGINT, 12}, {syscall.SIGTERM, 15}, {syscall.SIGHUP, 1}} {
		cmd := d.sandbox("run", "--", "sh", "-c",
			"trap 'exit 10' USR1; trap 'exit 12' INT; trap 'exit 15' TERM; trap 'exit 1' HUP; echo ready; while :; do sleep 0.02; done")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
			t.Fatalf("%q, %v", line, err)
		}
		if err := cmd.Process.Signal(c.sig); err != nil {
			t.Fatal(err)
		}
		if code := exitOf(t, cmd.Wait()); code != c.code && (c.sig != syscall.SIGHUP || code != 15) { // both come
			t.Errorf("%v: exit %d, want %d", c.sig, code, c.code)
		}
	}
}

// scale is how many of many there are: a quarter with the race detector, and half of them where the other passes add to them.
func scale(many int) int {
	switch {
	case require.Race:
		return require.Fewer(many)
	case require.Sampled():
		return many / 2
	}
	return many
}

// A joining client that is killed at any moment leaves nothing: no step open, no
// process, no descriptor; what its command did is one step, whose undo is exact.
func TestJoinedClientKilled(t *testing.T) {
	d := newDesk(t)
	session := d.live()
	d.write("base", "as it was")
	d.must("run", "--", "true")
	d.rests()
	fds := openFiles(t, session.PID)
	before := treesnap.MustTake(t, d.dir)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range scale(100) {
		cmd := d.sandbox("run", "--", "sh", "-c", "trap '' HUP; echo x >>base; mkdir -p a/b; echo "+strconv.Itoa(i)+" >a/b/c; while :; do echo y >>a/more; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// The client lives for up to 60 ms; most of its start is in that time.
		time.AfterFunc(time.Duration(r.Int64N(int64(60*time.Millisecond))), func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // it was killed
		d.rests()
		out, err := d.sandbox("undo").CombinedOutput()
		if err != nil && !strings.Contains(string(out), undolog.ErrNothing.Error()) {
			t.Fatalf("kill %d: undo: %v\n%s", i, err, out)
		}
		if diff := treesnap.Diff(before, treesnap.MustTake(t, d.dir), treesnap.Options{}); len(diff) > 0 {
			history, _ := d.sandbox("history").CombinedOutput()
			t.Fatalf("kill %d: the tree differs:\n%s\nundo: %v\n%s\nhistory:\n%s", i, strings.Join(diff, "\n"), err, out, history)
		}
	}
	d.rests()
	keeps(t, session.PID, fds)
	out := d.must("run", "--", "sh", "-c", `echo /proc/[0-9]*`)
	if inside := strings.Fields(out); len(inside) > 3 { // the first process, the shell itself, and its parent
		t.Errorf("processes inside: %s", inside)
	}
}

// Two that race to start in one folder both run: one has the session, the other
// joins it, or has the next one.
func TestRacingStarters(t *testing.T) {
	d := newDesk(t)
	races := scale(50)
	for i := range races {
		var both sync.WaitGroup
		for _, name := range []string{"one", "two"} {
			both.Go(func() {
				cmd := d.sandbox("run", "--", "sh", "-c", "echo "+name+" >"+name+strconv.Itoa(i)+"; exit 3")
				if out, err := cmd.CombinedOutput(); exitOf(t, err) != 3 {
					t.Errorf("race %d, %s: %v\n%s", i, name, err, out)
				}
			})
		}
		both.Wait()
		for _, name := range []string{"one", "two"} {
			if !d.exists(name + strconv.Itoa(i)) {
				t.Errorf("race %d: %s did not run", i, name)
			}
		}
	}
	if list := d.sessions(); len(list) != 0 {
		t.Errorf("sessions left: %+v", list)
	}
	var list []undolog.Entry
	if err := json.Unmarshal([]byte(d.must("history", "--json")), &list); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, e := range list {
		ran += max(e.CommandCount, 1)
	}
	if ran != 2*races {
		t.Errorf("%d commands in the history, want %d", ran, 2*races)
	}
}

// Two that race to start a session in the background have the same one.
func TestRacingBackgroundStarters(t *testing.T) {
	d := newDesk(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if out, err := d.sandbox("run", "--keep", "10m", "--", "true").CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	all.Wait()
	if list := d.sessions(); len(list) != 1 {
		t.Errorf("sessions: %+v", list)
	}
	d.must("stop")
}

// 200 commands one after the other and 20 at once join one session: their statuses
// are their own, and the undo of each is exact.
func TestManyJoined(t *testing.T) {
	d := newDesk(t)
	session := d.live()
	d.must("run", "--", "true")
	d.rests()
	fds := openFiles(t, session.PID)
	trees := []*treesnap.Snapshot{treesnap.MustTake(t, d.dir)}
	const atOnce = 20
	inTurn := scale(200)
	for i := range inTurn {
		name := "f" + strconv.Itoa(i%7)
		cmd := d.sandbox("run", "--", "sh", "-c", fmt.Sprintf("echo %d >>%s; mkdir -p d%d; mv %s d%d/; exit %d", i, name, i%5, name, i%5, i%100))
		if out, err := cmd.CombinedOutput(); exitOf(t, err) != i%100 {
			t.Fatalf("command %d: %v\n%s", i, err, out)
		}
		trees = append(trees, treesnap.MustTake(t, d.dir))
	}
	for i := inTurn; i > inTurn-20; i-- {
		d.must("undo")
		if diff := treesnap.Diff(trees[i-1], treesnap.MustTake(t, d.dir), treesnap.Options{}); len(diff) > 0 {
			t.Fatalf("undo of command %d:\n%s", i, strings.Join(diff, "\n"))
		}
	}
	before := treesnap.MustTake(t, d.dir)
	var all sync.WaitGroup
	for i := range atOnce {
		all.Go(func() {
			cmd := d.sandbox("run", "--", "sh", "-c", fmt.Sprintf("echo %d >>shared; exit %d", i, i))
			if out, err := cmd.CombinedOutput(); exitOf(t, err) != i {
				t.Errorf("command %d of those at once: %v\n%s", i, err, out)
			}
		})
	}
	all.Wait()
	for n := atOnce; n > 0; { // each is one line of the file, in whatever order and steps
		in := max(d.newest().CommandCount, 1)
		d.must("undo")
		b, _ := os.ReadFile(filepath.Join(d.dir, "shared"))
		if lines := strings.Count(string(b), "\n"); lines != n-in {
			t.Fatalf("%d lines after the undo of %d commands, want %d", lines, in, n-in)
		}
		n -= in
	}
	if diff := treesnap.Diff(before, treesnap.MustTake(t, d.dir), treesnap.Options{}); len(diff) > 0 {
		t.Errorf("after all undos:\n%s", strings.Join(diff, "\n"))
	}
	d.rests()
	keeps(t, session.PID, fds)
}

// newest is the newest step.
func (d *desk) newest() (e undolog.Entry) {
	d.t.Helper()
	var list []undolog.Entry
	if err := json.Unmarshal([]byte(d.must("history", "--json", "-n", "1")), &list); err != nil || len(list) != 1 {
		d.t.Fatalf("%d entries, %v", len(list), err)
	}
	return list[0]
}

// Whoever sends nonsense gets an error, and the session is as before.
func TestBadJoiners(t *testing.T) {
	d := newDesk(t)
	session := d.live()
	d.must("run", "--", "true")
	d.rests()
	fds := openFiles(t, session.PID)
	run := `{"id":1,"method":"run","fds":%d,"params":{"argv":["touch","bad"],"env":["PATH=/bin:/usr/bin"],"dir":%q,"wants":{}}}` + "\n"
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, c := range []struct {
		name, line string
		files      int
		want       string
	}{
		{"garbage", "\x00\xff{]\n", 0, "not a request"},
		{"garbage with descriptors", "garbage\n", 3, "not a request"},
		{"no descriptors", fmt.Sprintf(run, 0, d.dir), 0, "0 came"},
		{"descriptors that did not come", fmt.Sprintf(run, 3, d.dir), 0, "3 descriptors"},
		{"more than a command has", fmt.Sprintf(run, 5, d.dir), 5, "5 came"},
		{"too many", fmt.Sprintf(run, 3, d.dir), 100, "descriptors"},
		{"another folder", fmt.Sprintf(run, 3, "/etc"), 3, "no working folder"},
		{"out of the folder", fmt.Sprintf(run, 3, d.dir+"/../other"), 3, "no working folder"},
		{"no command", `{"id":1,"method":"run","fds":0,"params":{"dir":"/"}}` + "\n", 0, "no command"},
		{"an oversized line", strings.Repeat("x", 2<<20), 0, "at most"},
		{"a signal for nobody", `{"id":1,"method":"signal","params":{"step_id":99,"signal":9}}` + "\n", 0, "no command of a client"},
		{"no signal", `{"id":1,"method":"signal","params":{"step_id":1,"signal":1000}}` + "\n", 0, "no signal 1000"},
	} {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: session.Socket, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		var rights []byte
		if c.files > 0 {
			fd := int(w.Fd())
			list := make([]int, c.files)
			for i := range list {
				list[i] = fd
			}
			rights = syscall.UnixRights(list...)
		}
		go func() { // the session may not read it all
			n, _, _ := conn.WriteMsgUnix([]byte(c.line), rights, nil)
			_, _ = io.WriteString(conn, c.line[max(n, 0):])
		}()
		line, err := bufio.NewReader(conn).ReadString('\n')
		if !strings.Contains(line, c.want) || !strings.Contains(line, `"error"`) {
			t.Errorf("%s: %q, %v", c.name, line, err)
		}
		conn.Close()
	}
	flood(t, session.Socket)
	d.must("run", "--", "touch", "good")
	if d.exists("bad") || !d.exists("good") {
		t.Error("what was refused has run, or what was not has not")
	}
	d.rests()
	keeps(t, session.PID, fds)
}

// flood asks for more at once than is served, and hangs up.
func flood(t *testing.T, path string) {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, strings.Repeat(`{"id":1,"method":"subscribe"}`+"\n", 1000)) }()
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if strings.Contains(line, "too many requests") {
			return
		}
		if err != nil {
			t.Fatalf("no refusal: %v", err)
		}
	}
}
