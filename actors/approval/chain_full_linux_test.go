package approval

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/fulldisk"
)

// TestFullDisk: on a full disk a line is appended as a whole, with the head, or not at all and with an error; what was
// there is whole, nothing is left over, and when there is room again the log goes on.
func TestChainFullDisk(t *testing.T) {
	disk := fulldisk.New(t)
	path := filepath.Join(disk.Dir, "decisions.jsonl")
	w, _, err := OpenChain(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	n := 0
	appendOne := func() error {
		err := w.Append(object{N: n, Text: strings.Repeat("x", 300)})
		if err == nil {
			n++
		}
		return err
	}
	for round := range 3 {
		for range 3 {
			if err := appendOne(); err != nil {
				t.Fatal(err)
			}
		}
		disk.Fill()
		failed := 0
		for range 40 { // some may fit into what the file has
			if err := appendOne(); err != nil {
				failed++
				if !errors.Is(err, unix.ENOSPC) {
					t.Errorf("%v", err)
				}
			}
		}
		if failed == 0 {
			t.Fatal("the disk is not full")
		}
		if got := problems(t, path); len(got) > 0 {
			t.Errorf("round %d: %v", round, got)
		}
		if lines := lines(t, path); len(lines) != n {
			t.Errorf("round %d: %d lines, %d were appended", round, len(lines), n)
		}
		if _, err := os.Lstat(headFile(path) + ".new"); err == nil {
			t.Errorf("round %d: half a head is left", round)
		}
		disk.Free()
		if err := appendOne(); err != nil {
			t.Fatal(err)
		}
	}
	again, found, err := OpenChain(path)
	if err != nil || found.Lines != n || len(found.Problems) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
	if again != nil {
		_ = again.Close()
	}
}
