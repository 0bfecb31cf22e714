package escape

import (
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// holding is a lab in which the first deletion of a step is held.
func holding(t *testing.T, b hypervisor.Bridge) *lab {
	l := newLab(t, func(l *lab, c *api.Config) {
		c.Bridge = b
		c.Safeguards.DeleteThreshold = 1
		put(t, l.work+"/f", "kept")
	})
	return l
}

// TestKilledWhileHeld: kill -9 from inside lets a held operation go, though
// nobody decides; the step goes on and ends.
func TestKilledWhileHeld(t *testing.T) { overBridges(t, killedWhileHeld) }

func killedWhileHeld(t *testing.T, b hypervisor.Bridge) {
	for name, remove := range map[string]string{"a process": "rm f", "a thread": program + " attack unlink f"} {
		t.Run(name, func(t *testing.T) {
			l := holding(t, b)
			c := l.start("sh", "-c", remove+" & p=$!; read go; kill -9 $p; wait $p; echo status $?; read go; echo x >after; test -e f")
			l.event(api.EventSafeguardTriggered)
			c.say("kill it")
			c.expect("status 137\n", patience)
			c.say("go on")
			if r := c.wait(); r.err != nil || r.Status.Code != 0 || r.Outcome != "completed" || len(r.Entries) != 1 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestSignalledWhileHeld: signals that do not kill end no hold.
func TestSignalledWhileHeld(t *testing.T) { overBridges(t, signalledWhileHeld) }

func signalledWhileHeld(t *testing.T, b hypervisor.Bridge) {
	l := holding(t, b)
	c := l.start(program, "attack", "unlink", "f", "USR1", "WINCH", "URG")
	e := l.event(api.EventSafeguardTriggered)
	c.say("signal it")
	if b == hypervisor.BridgeFUSE { // the mediated bridge asks the kernel, by a clock of its own
		actortest.Eventually(t, "the process is looked at again and again", func() bool { return l.clock.polls.Load() > 5 })
	}
	pending, err := l.Pending(t.Context())
	if err != nil || len(pending) != 1 {
		t.Fatalf("no longer held: %+v, %v", pending, err)
	}
	must(t, l.Decide(t.Context(), api.DecideRequest{ID: e.Pending.ID, Allow: true, By: "test"}))
	if r := c.wait(); r.err != nil || r.Status.Code != 0 || r.out != "" {
		t.Errorf("%+v", r)
	}
}
