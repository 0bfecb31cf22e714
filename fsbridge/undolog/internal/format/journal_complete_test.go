package format

import (
	"testing"
)

// TestCapturedTwice: a capture that failed in between is repeated, and what was
// journaled before counts once.
func TestCapturedTwice(t *testing.T) {
	r := newSet()
	r.Objects[2] = &Object{Obj: 2, Meta: Meta{Size: 300}}
	add := func(off, n int64) {
		r.Contents[2] = append(r.Contents[2], Content{Obj: 2, Off: off, Len: n, Enc: EncHole})
	}
	add(0, 200)
	add(0, 200)
	if r.Complete(2) {
		t.Error("200 of 300 bytes are all")
	}
	add(150, 150)
	if !r.Complete(2) {
		t.Error("all is not captured")
	}
}
