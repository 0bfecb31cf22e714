package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// await is a shell command that makes one file and then waits for another.
func await(mark, gate string) string {
	return ">" + mark + "; while ! [ -e " + gate + " ]; do sleep 0.02; done"
}

// begin starts a command and returns when it has made its mark.
func (d *desk) begin(mark, gate string) *exec.Cmd {
	d.t.Helper()
	cmd := d.sandbox("run", "--", "sh", "-c", await(mark, gate))
	cmd.Stderr = &bytes.Buffer{}
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	actortest.Eventually(d.t, mark, func() bool { return d.exists(mark) })
	return cmd
}

// Two terminals: one command sleeps, the other works and does not wait for it. Both
// are one step, also with what a third one does that is killed with its client.
func TestTwoTerminals(t *testing.T) {
	d := newDesk(t)
	d.write("source", "text") // before the session, which tells of edits from outside
	d.live()
	before := treesnap.MustTake(t, d.dir)
	sleeper := d.begin("sleeps", "wake")
	make := d.sandbox("run", "--json", "--", "sh", "-c", "mkdir out; cp source out/object; rm source; exit 4")
	var report bytes.Buffer
	make.Stderr = &report
	if code := exitOf(t, make.Run()); code != 4 {
		t.Fatalf("exit %d\n%s", code, &report)
	}
	var got stepReport
	if err := json.Unmarshal(report.Bytes(), &got); err != nil || got.Others != 1 || got.Step == 0 || len(got.Directories) != 0 {
		t.Errorf("%+v, %v\n%s", got, err, &report)
	}
	killed := d.begin("killed", "never")
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	actortest.Eventually(t, "one command", func() bool { return strings.Count(d.must("status", "--json"), `"command": "sh -c`) == 1 })
	if out, err := d.sandbox("undo").CombinedOutput(); exitOf(t, err) != 1 || !strings.Contains(string(out), "a command is running") {
		t.Errorf("undo while a command runs: %v\n%s", err, out)
	}
	d.must("run", "--", "touch", "wake")
	if err := sleeper.Wait(); err != nil {
		t.Error(err)
	}
	d.rests()
	e := d.newest()
	if e.CommandCount != 4 || len(e.Commands) != 4 || e.StepID != got.Step || e.Status != "cancelled" || *e.ExitCode != 4 {
		t.Fatalf("%+v", e)
	}
	for i, want := range []string{"completed", "completed", "cancelled", "completed"} {
		if e.Commands[i].Status != want || e.Commands[i].EndedAt.Before(e.Commands[i].StartedAt) {
			t.Errorf("command %d: %+v", i, e.Commands[i])
		}
	}
	d.must("undo")
	if diff := treesnap.Diff(before, treesnap.MustTake(t, d.dir), treesnap.Options{}); len(diff) > 0 {
		t.Errorf("the tree differs:\n%s", strings.Join(diff, "\n"))
	}
}

// The session's own command ends before one that has joined: the program stays for
// it, says so, and both are one step. A signal ends the other, too.
func TestOwnerStays(t *testing.T) {
	for _, how := range []string{"wait", "signal"} {
		t.Run(how, func(t *testing.T) {
			d := newDesk(t)
			owner := d.sandbox("run", "--", "sh", "-c", await("mine", "joined"))
			notes, err := owner.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := owner.Start(); err != nil {
				t.Fatal(err)
			}
			actortest.Eventually(t, "mine", func() bool { return d.exists("mine") })
			guest := d.begin("joined", "go")
			said := make([]byte, 0, 4096)
			for !bytes.Contains(said, []byte("the session stays for 1 other command")) {
				n, err := notes.Read(said[len(said):cap(said)])
				if said = said[:len(said)+n]; err != nil {
					t.Fatalf("%q, %v", said, err)
				}
			}
			if how == "signal" {
				err = owner.Process.Signal(syscall.SIGINT)
			} else {
				d.must("run", "--", "touch", "go")
			}
			if err != nil {
				t.Fatal(err)
			}
			code := exitOf(t, guest.Wait())
			rest, _ := io.ReadAll(notes)
			if own := exitOf(t, owner.Wait()); own != 0 {
				t.Errorf("the owner: exit %d\n%s", own, rest)
			}
			if (code == 0) != (how == "wait") {
				t.Errorf("who joined: exit %d", code)
			}
			if list := d.sessions(); len(list) != 0 {
				t.Errorf("sessions left: %+v", list)
			}
			if e := d.newest(); e.CommandCount < 2 {
				t.Errorf("%+v", e)
			}
			d.must("undo")
			if d.exists("mine") || d.exists("joined") {
				t.Error("the undo was not of the whole step")
			}
		})
	}
}

// 200 commands while another runs, more than may at once: each has its own status,
// nothing is left of them, and the undo of their step is exact.
func TestManyAtOnce(t *testing.T) {
	d := newDesk(t)
	session := d.live()
	d.must("run", "--", "true")
	d.rests()
	fds := openFiles(t, session.PID)
	before := treesnap.MustTake(t, d.dir)
	many := scale(200)
	holder := d.begin("holds", "release")
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			cmd := d.sandbox("run", "--", "sh", "-c", fmt.Sprintf("echo %d >>shared; echo >own%d; exit %d", i, i, i%100))
			if out, err := cmd.CombinedOutput(); exitOf(t, err) != i%100 {
				t.Errorf("command %d: %v\n%s", i, err, out)
			}
		})
	}
	all.Wait()
	d.must("run", "--", "touch", "release")
	if err := holder.Wait(); err != nil {
		t.Error(err)
	}
	d.rests()
	keeps(t, session.PID, fds)
	if e := d.newest(); e.CommandCount != many+2 || len(e.Commands) != many+2 {
		t.Errorf("%d commands, %d listed", e.CommandCount, len(e.Commands))
	}
	d.must("undo")
	if diff := treesnap.Diff(before, treesnap.MustTake(t, d.dir), treesnap.Options{}); len(diff) > 0 {
		t.Errorf("the tree differs:\n%s", strings.Join(diff, "\n"))
	}
	out := d.must("run", "--", "sh", "-c", `echo /proc/[0-9]*`)
	if inside := strings.Fields(out); len(inside) > 3 { // the first process, the shell itself, and its parent
		t.Errorf("processes inside: %s", inside)
	}
}
