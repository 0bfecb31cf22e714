package actors

import (
	"context"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// A client of the control socket has an actor, which is seen in the tree with what
// it does, until it hangs up.
func TestConnectionIsAnActor(t *testing.T) {
	l := newLab(t, 1, nil)
	c, err := Dial(t.Context(), l.s.socket())
	if err != nil {
		t.Fatal(err)
	}
	connections := func(tree api.Tree) []api.TreeNode {
		for _, n := range tree.Root.Children {
			if n.Name == "frontends" && len(n.Children) == 1 && n.Children[0].Name == "control-socket" {
				return n.Children[0].Children
			}
		}
		t.Fatalf("no frontends: %+v", tree)
		return nil
	}
	tree, err := c.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := connections(tree)
	if len(n) != 1 || n[0].PID == "" || n[0].State != "open" || n[0].Facts["in_flight"] != "1" || n[0].Facts["bytes_in"] == "0" {
		t.Errorf("%+v", n)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	actortest.Eventually(t, "gone", func() bool {
		tree, err := l.s.Inspect(context.Background())
		return err == nil && len(connections(tree)) == 0
	})
}
