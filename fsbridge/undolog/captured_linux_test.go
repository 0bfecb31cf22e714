package undolog

import "testing"

// TestCapturedTwice: a capture that failed in between is repeated, and what was
// journaled before counts once.
func TestCapturedTwice(t *testing.T) {
	r := newStepRecords()
	r.Objects[2] = &objectRecord{Obj: 2, Meta: objectMeta{Size: 300}}
	add := func(off, n int64) {
		r.Contents[2] = append(r.Contents[2], contentRecord{Obj: 2, Off: off, Len: n, Enc: encHole})
	}
	add(0, 200)
	add(0, 200)
	if r.captured(2) {
		t.Error("200 of 300 bytes are all")
	}
	add(150, 150)
	if !r.captured(2) {
		t.Error("all is not captured")
	}
}
