package fsbridge

import "testing"

// TestU19GuardIdle: an operation that holds the guard is under way, whatever inode it is of; one that is over is not.
func TestU19GuardIdle(t *testing.T) {
	var g Guard
	for ino := range uint64(100) {
		ticket := g.Enter(ino)
		if g.Idle() {
			t.Fatalf("inode %d: idle during an operation", ino)
		}
		second := g.Enter(ino)
		g.Exit(ticket)
		if g.Idle() {
			t.Fatalf("inode %d: idle during the second of two operations", ino)
		}
		g.Exit(second)
		if !g.Idle() {
			t.Fatalf("inode %d: not idle afterwards", ino)
		}
	}
	g.Drain(func() bool { return !g.Idle() })
	if g.Epoch() != 1 {
		t.Error("idle while the guard is drained")
	}
}
