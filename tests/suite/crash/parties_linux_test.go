package crash

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/fixture"
)

// parties are who takes part in a command of an agent that has joined a session.
var parties = []string{"supervisor", "first process", "client inside", "joined client"}

// TestKillEachParty kills, at random moments, one of those who take part in a joined command whose own commands are steps
// from inside: afterwards everything since a mark can be undone, redone, and the next command runs.
func TestKillEachParty(t *testing.T) {
	t.Parallel()
	total := (runs(t) + 7) / 8
	s := seed(t)
	t.Logf("SANDBOX_CRASH_SEED=%d", s)
	c := &campaign{t: t, s: drive.New(t, func(t testing.TB, root string) { fixture.Small(t, root); fixture.Flat(t, root+"/src", 60, 2000) }),
		r: rand.New(rand.NewPCG(s, 3))}
	c.visible()
	takes := 300 * time.Millisecond
	late := late(t)
	for i := range total {
		if late() {
			break
		}
		party := parties[i%len(parties)]
		bridge := []string{"fuse", "mediated"}[i/len(parties)%2]
		takes = c.killParty(party, bridge, takes)
		if t.Failed() {
			break
		}
	}
	c.s.WaitGone(t)
	c.s.Must(t, "ps") // sweeps the sockets of killed sessions
	c.s.CheckResidue(t)
}

// killParty is one kill. It returns how long the agent takes that nobody kills.
func (c *campaign) killParty(party, bridge string, takes time.Duration) time.Duration {
	c.t.Helper()
	c.s.Must(c.t, "start", "--idle", "10m", "--bridge", bridge)
	c.tree = c.s.Snapshot(c.t)
	c.s.Must(c.t, "mark", "here")
	text := "echo go\n"
	var env []string
	for i := range 3 {
		env = append(env, fmt.Sprintf("AGENT_STEP%d=%s", i, script(c.r, 2)))
		text += fmt.Sprintf("\"$SANDBOX_INSIDE\" run -- sh -c \"$AGENT_STEP%d\" >/dev/null; echo between >> small.txt\n", i)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Minute)
	defer cancel()
	cmd := c.s.Command(ctx, "run", "--", "sh", "-c", text)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	r := bufio.NewReader(out)
	_, _ = r.ReadString('\n')
	delay := c.moment(takes)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	<-timer.C
	killed := c.end(party, cmd.Process.Pid)
	go func() { _, _ = io.Copy(io.Discard, r) }()
	_ = cmd.Wait()
	what := fmt.Sprintf("%s killed after %v (found: %v), %s", party, delay, killed, bridge)
	if !killed {
		takes = time.Since(began)
	}
	c.afterKill(what)
	return takes
}

// end kills the party, if it is there.
func (c *campaign) end(party string, joined int) bool {
	pid := joined
	switch party {
	case "supervisor", "first process":
		var st struct {
			PID     int               `json:"pid"`
			Machine map[string]string `json:"machine"`
		}
		if err := json.Unmarshal([]byte(c.s.Must(c.t, "status", "--json").Stdout), &st); err != nil {
			c.t.Fatal(err)
		}
		if pid = st.PID; party == "first process" {
			pid, _ = strconv.Atoi(st.Machine["pid"])
		}
	case "client inside":
		pid = c.clientInside()
	}
	return pid > 0 && syscall.Kill(pid, syscall.SIGKILL) == nil
}

// clientInside returns a "sandbox run" that runs inside, or 0.
func (c *campaign) clientInside() int {
	list, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range list {
		b, _ := os.ReadFile(path)
		if args := strings.Split(string(b), "\x00"); args[0] == c.inside && slices.Contains(args, "run") && !slices.Contains(args, "--working-dir") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			return pid
		}
	}
	return 0
}

// afterKill looks what a kill left: nobody, and a history that leads back and forth.
func (c *campaign) afterKill(what string) {
	c.t.Helper()
	c.s.Do(c.t, "stop") // if it is still there: it ends what runs, and closes the step
	c.s.WaitGone(c.t)
	steps := c.steps(what)
	after := c.s.Snapshot(c.t)
	if r := c.s.Do(c.t, "undo", "--to", "here"); r.Code != 0 && !strings.Contains(r.Stderr, "nothing was changed since mark here") {
		c.t.Errorf("undo --to after %s: %d %s", what, r.Code, r.Stderr)
	}
	c.equal("undo --to after "+what, c.tree, c.s.Snapshot(c.t))
	if n := steps - c.steps(what); n > 0 {
		c.s.Must(c.t, "redo", strconv.Itoa(n))
		c.equal("redo after "+what, after, c.s.Snapshot(c.t))
		c.s.Must(c.t, "undo", "--to", "here")
	}
	c.s.Must(c.t, "mark", "--delete", "here")
	c.s.Run(c.t, "echo next >> small.txt")
	c.s.Must(c.t, "undo")
	c.equal("the next step after "+what, c.tree, c.s.Snapshot(c.t))
}
