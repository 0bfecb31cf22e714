package approval

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/fulldisk"
)

// TestRealFullDisk: on a file system without room nothing changes in the rules of any scope; the error says so, nothing is
// left half-written, and what was there is trusted. With room it goes on.
func TestRealFullDisk(t *testing.T) {
	for _, scope := range []Scope{Project, User} {
		t.Run(string(scope), func(t *testing.T) {
			disk := fulldisk.New(t)
			p := Standard(disk.Dir, t.TempDir())
			f := p.File(scope)
			f.Path = filepath.Join(disk.Dir, string(scope)+".json")
			if err := f.Put(noon, rule(t, scope, "allow read /a")); err != nil {
				t.Fatal(err)
			}
			old, err := os.ReadFile(f.Path)
			if err != nil {
				t.Fatal(err)
			}
			disk.Fill()
			for range 3 {
				if err := f.Put(noon, rule(t, scope, "allow read /b")); !errors.Is(err, unix.ENOSPC) {
					t.Errorf("%v", err)
				}
			}
			if now, err := os.ReadFile(f.Path); err != nil || !bytes.Equal(now, old) {
				t.Errorf("%q, %v", now, err)
			}
			if rules, err := f.Load(); err != nil || len(rules) != 1 {
				t.Errorf("%v, %v", rules, err)
			}
			left := 0
			_ = filepath.WalkDir(disk.Dir, func(path string, _ os.DirEntry, _ error) error {
				if ok, _ := filepath.Match(".policy-*", filepath.Base(path)); ok {
					left++
				}
				return nil
			})
			if left != 0 {
				t.Errorf("%d files are left behind", left)
			}
			disk.Free()
			if err := f.Put(noon, rule(t, scope, "allow read /b")); err != nil {
				t.Error(err)
			}
			if rules, err := f.Load(); err != nil || len(rules) != 2 {
				t.Errorf("then: %v, %v", rules, err)
			}
		})
	}
}
