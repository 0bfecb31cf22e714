package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// An agent that runs in the jail, and puts each of its commands behind `sandbox run`:
// each is a step, two at the same time are one, and each can be undone alone.
func TestStepsFromInside(t *testing.T) {
	d := newDesk(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d.copyTool(self)
	d.write("kept", "text")
	before := treesnap.MustTake(t, d.dir)
	agent := `echo own >one
./tool run -- sh -c 'mkdir tree; echo 2 >tree/two; exit 3'; echo $? >status
./tool run -- sh -c '>left; while ! [ -e right ]; do sleep 0.02; done' &
./tool run -- sh -c 'while ! [ -e left ]; do sleep 0.02; done; >right'
wait
./tool step -- rm -r tree kept
./tool run --keep 1m -- true || echo "keep is refused"
./tool run --network open -- true 2>refused
echo $? >>status`
	out, err := d.sandbox("run", "--isolation", "jail", "--", "sh", "-c", agent).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "keep is refused") {
		t.Errorf("%s", out)
	}
	if got := d.read("status"); got != "3\n125\n" || !strings.Contains(d.read("refused"), "inside a sandbox") {
		t.Errorf("statuses %q, %q\n%s", got, d.read("refused"), out)
	}
	var steps []undolog.Entry
	text := d.must("history", "--json")
	if err := json.Unmarshal([]byte(text), &steps); err != nil {
		t.Fatal(err)
	}
	// From the newest: the agent's end, rm, what it did between, both at once, again, mkdir, its beginning.
	var kinds []string
	for i, e := range steps {
		if first := steps[len(steps)-1].StepID; e.Group != first || e.GroupStart != (i == len(steps)-1) {
			t.Errorf("step %d is in group %d (start %v) of run %d", e.StepID, e.Group, e.GroupStart, first)
		}
		switch {
		case e.CommandCount == 2:
			kinds = append(kinds, "both")
		case strings.HasPrefix(e.Command, "rm"):
			kinds = append(kinds, "rm")
		case strings.Contains(e.Command, "own >one"):
			kinds = append(kinds, "agent")
		case strings.Contains(e.Command, "mkdir"):
			kinds = append(kinds, "mkdir")
			if e.ExitCode == nil || *e.ExitCode != 3 {
				t.Errorf("exit code of %+v", e)
			}
		}
	}
	if got := strings.Join(kinds, " "); got != "agent rm both agent mkdir agent" {
		t.Fatalf("steps %q\n%s", got, text)
	}
	after := treesnap.MustTake(t, d.dir)
	d.must("undo") // the agent's own end
	if d.exists("tree") || d.exists("kept") {
		t.Error("the undo of the agent's last own step took the next one along")
	}
	d.must("undo")
	if d.read("tree/two") != "2\n" || d.read("kept") != "text" || !d.exists("right") {
		t.Error("rm is not undone alone")
	}
	d.must("undo")
	if d.exists("left") || d.exists("right") || !d.exists("tree/two") {
		t.Error("the two at once are not undone together, alone")
	}
	d.must("undo", "3")
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, d.dir))
	d.must("redo", "--group")
	treesnap.AssertEqual(t, after, treesnap.MustTake(t, d.dir))
	if text := d.must("undo", "--group", "--dry-run"); strings.Count(text, "would be undone") != len(steps) {
		t.Errorf("the trial of the whole run says\n%s", text)
	}
	d.must("undo", "--group", fmt.Sprint(steps[0].Group))
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, d.dir))
}

// A hook that was installed for a folder is asked inside, too, where its flags would be refused: the command has a
// step of its own all the same.
func TestHookInside(t *testing.T) {
	d := newDesk(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d.copyTool(self)
	d.write("question", `{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"echo hooked >hooked"}}`)
	out, err := d.sandbox("run", "--isolation", "jail", "--", "sh", "-c",
		"./tool hook claude-code -- --working-dir "+d.dir+" --network open --keep 10m <question >answer; ./tool run --keep 1m -- touch x").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var answer struct {
		Output struct {
			Input struct{ Command string } `json:"updatedInput"`
		} `json:"hookSpecificOutput"`
	}
	if err := json.Unmarshal([]byte(d.read("answer")), &answer); err != nil {
		t.Fatal(err)
	}
	if out, err := d.sandbox("run", "--isolation", "jail", "--", "sh", "-c", answer.Output.Input.Command).CombinedOutput(); err != nil || d.read("hooked") != "hooked\n" {
		t.Errorf("%s: %v\n%s", answer.Output.Input.Command, err, out)
	}
}

// A mark survives the process, is shown, and leads back and forward; the same one twice,
// and from inside, is refused.
func TestMarkCommand(t *testing.T) {
	require.Mount(t)
	d := newDesk(t)
	d.must("run", "--isolation", "none", "--", "touch", "one")
	d.must("mark", "before")
	marked := treesnap.MustTake(t, d.dir)
	d.must("run", "--isolation", "none", "--", "sh", "-c", "rm one; touch two")
	if out, err := d.sandbox("mark", "before").CombinedOutput(); err == nil || !strings.Contains(string(out), "there is one with the name before") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := d.sandbox("undo", "--to", "nowhere").CombinedOutput(); err == nil || !strings.Contains(string(out), "none has the name nowhere") {
		t.Errorf("%v\n%s", err, out)
	}
	lines := strings.Split(d.must("history"), "\n")
	if len(lines) < 4 || !strings.HasPrefix(lines[2], "mark ") || !strings.Contains(lines[2], "before") {
		t.Errorf("history: %q", lines)
	}
	d.must("undo", "--to", "before")
	treesnap.AssertEqual(t, marked, treesnap.MustTake(t, d.dir))
	d.must("redo")
	if !d.exists("two") || d.exists("one") {
		t.Error("not brought back")
	}
	d.must("mark", "--delete", "before")
	if text := d.must("mark", "--json"); strings.TrimSpace(text) != "[]" {
		t.Errorf("%s", text)
	}
}

// Where commands inside can have no step of their own, they are told so, and so are those
// outside that ask for one.
func TestNoStepsThere(t *testing.T) {
	d := newDesk(t)
	cmd := d.sandbox("step", "--", "true")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "sandbox run -- true") {
		t.Errorf("outside: %v\n%s", err, out)
	}
	for _, word := range []string{"run", "step"} {
		cmd := d.sandbox(word, "--", "touch", "made")
		cmd.Env = append(cmd.Env, "SANDBOX=1", "SANDBOX_STEPS=/nowhere")
		if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 125 || !strings.Contains(string(out), "no steps of their own") {
			t.Errorf("%s inside: %v\n%s", word, err, out)
		}
	}
	if d.exists("made") {
		t.Error("the command ran")
	}
}

// A command inside gets a step of its own where only the user who has started the session may look into the folder, or
// into what is above it, and its program is that user's alone.
func TestStepsFromInsidePrivateFolder(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name          string
		above, folder os.FileMode
		bridge        string
	}{{"all", 0o700, 0o700, "auto"}, {"all, FUSE", 0o700, 0o700, "fuse"}, {"above", 0o700, 0o755, "auto"}, {"none", 0o755, 0o755, "fuse"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			above, err := os.MkdirTemp("/tmp", "sb-private-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := os.RemoveAll(above); err != nil {
					t.Error(err)
				}
			})
			d.dir = filepath.Join(above, "work")
			if err := errors.Join(os.Mkdir(d.dir, c.folder), os.Chmod(above, c.above)); err != nil {
				t.Fatal(err)
			}
			d.copyTool(self)
			if err := os.Chmod(filepath.Join(d.dir, "tool"), 0o700); err != nil {
				t.Fatal(err)
			}
			d.must("run", "--isolation", "jail", "--bridge", c.bridge, "--", "./tool", "run", "--", "sh", "-c", "echo 1 >one")
			if got := d.read("one"); got != "1\n" {
				t.Errorf("one: %q", got)
			}
			d.must("undo")
			if d.exists("one") {
				t.Error("one is still there")
			}
		})
	}
}

// copyTool puts the program where the jail shows it: not below /tmp.
func (d *desk) copyTool(self string) {
	d.t.Helper()
	from, err := os.Open(self)
	if err != nil {
		d.t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(d.dir, "tool"), os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		d.t.Fatal(err)
	}
	defer to.Close()
	if _, err := io.Copy(to, from); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) read(name string) string {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		d.t.Error(err)
	}
	return string(text)
}
