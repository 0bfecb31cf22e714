package stamp

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestOf: a file keeps its stamp until it is changed, also if its size and its time of modification stay; what was changed just now may be changed
// again unseen.
func TestOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	look := func() os.FileInfo {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	if err := os.WriteFile(file, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := look()
	if Of(before) == "" || Of(before) != Of(look()) {
		t.Errorf("%s, then %s", Of(before), Of(look()))
	}
	if changed := before.ModTime(); Settled(before, changed) || !Settled(before, changed.Add(time.Second)) {
		t.Error("settled when it is not, or not when it is")
	}
	for Of(look()) == Of(before) { // until the kernel's clock has gone on
		if err := os.WriteFile(file, []byte("b"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, before.ModTime(), before.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
	if after := look(); after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("%v, %v", before, after)
	}
}
