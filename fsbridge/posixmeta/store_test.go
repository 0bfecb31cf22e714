package posixmeta

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

func openStore(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(path, Options{})
	must(t, err)
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mode(m uint32) func(*Entry) {
	return func(e *Entry) { e.HasMode, e.Mode = true, m }
}

// shown is the mode that a guest sees of a plain file.
func shown(t testing.TB, s *Store, path string) uint32 {
	t.Helper()
	e, err := s.Get(path)
	must(t, err)
	return e.Overlay(filepath.Base(path), Attr{Mode: 0o100666}).Mode
}

// TestWN_03_Persistence: a mode is the same in the next session, and follows
// the file; another process cannot have the store meanwhile.
func TestWN_03_Persistence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	s := openStore(t, path)
	must(t, s.Change("bin/tool", mode(0o755)))
	must(t, s.Change("bin/tool", func(e *Entry) { e.HasOwner, e.UID, e.GID = true, 1000, 100 }))
	must(t, s.Change("bin/link", func(e *Entry) { e.Type, e.Target = typeLink, "tool" }))
	if _, err := Open(path, Options{LockTimeout: 1}); !errors.Is(err, ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	must(t, s.Close())
	s = openStore(t, path)
	defer s.Close()
	if got := shown(t, s, "bin/tool"); got != 0o100755 {
		t.Errorf("in the next session: %o", got)
	}
	e, err := s.Get("bin/tool")
	must(t, err)
	if a := e.Overlay("tool", Attr{Mode: 0o100666, UID: 7, GID: 7, Size: 5}); a.UID != 1000 || a.GID != 100 || a.Size != 5 {
		t.Errorf("%+v", a)
	}
	e, err = s.Get("bin/link")
	must(t, err)
	if a := e.Overlay("link", Attr{Mode: 0o100666}); a.Mode != typeLink|0o777 || a.Size != 4 || e.Target != "tool" {
		t.Errorf("symlink: %+v, %q", a, e.Target)
	}
	must(t, s.Renamed("bin", "sbin"))
	must(t, s.Linked("sbin/tool", "other"))
	for path, want := range map[string]uint32{"bin/tool": 0o100644, "sbin/tool": 0o100755, "other": 0o100755} {
		if got := shown(t, s, path); got != want {
			t.Errorf("%s: %o, want %o", path, got, want)
		}
	}
	must(t, s.Removed("sbin"))
	if got := shown(t, s, "sbin/tool"); got != 0o100644 {
		t.Errorf("after removal: %o", got)
	}
}

// TestWN_04_Defaults: what nobody set a mode for has a likely one.
func TestWN_04_Defaults(t *testing.T) {
	for _, c := range []struct {
		name string
		host uint32
		want uint32
	}{
		{"a.txt", 0o100666, 0o100644},
		{"noextension", 0o100666, 0o100644},
		{"run.sh", 0o100666, 0o100755},
		{"SETUP.EXE", 0o100666, 0o100755},
		{"a.py", 0o100444, 0o100555}, // read-only on the host
		{"a.txt", 0o100444, 0o100444},
		{"dir", 0o040777, 0o040755},
		{"dir.txt", 0o040555, 0o040755}, // means nothing on a directory
		{"link", 0o120777, 0o120777},
	} {
		if got := (Entry{}).Overlay(c.name, Attr{Mode: c.host}); got.Mode != c.want {
			t.Errorf("%s, %o: %o, want %o", c.name, c.host, got.Mode, c.want)
		}
	}
	// A mode that was set is taken as it is.
	if got := (Entry{HasMode: true}).Overlay("run.sh", Attr{Mode: 0o100666}); got.Mode != 0o100000 {
		t.Errorf("mode 0: %o", got.Mode)
	}
}

// history is what an undo log knows, as [Store.Settle] is told it.
type history struct {
	s            *Store
	done, undone []int64
}

func (h *history) begin(t testing.TB, id int64) {
	t.Helper()
	h.undone = nil
	must(t, h.s.Begin(id))
}

func (h *history) end(t testing.TB, id int64) {
	t.Helper()
	h.done = append(h.done, id)
	h.settle(t)
}

func (h *history) settle(t testing.TB) {
	t.Helper()
	for range 2 { // the second time there is nothing to do
		must(t, h.s.Settle(0, h.done, h.undone))
	}
}

func (h *history) undo(t testing.TB) {
	t.Helper()
	last := len(h.done) - 1
	h.undone, h.done = append(h.undone, h.done[last]), h.done[:last]
	h.settle(t)
}

func (h *history) redo(t testing.TB) {
	t.Helper()
	last := len(h.undone) - 1
	h.done, h.undone = append(h.done, h.undone[last]), h.undone[:last]
	h.settle(t)
}

// TestWN_05_Rollback: an undone step leaves the modes as they were before it,
// also those of files that it renamed and removed, in a later session too.
func TestWN_05_Rollback(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	s := openStore(t, path)
	must(t, s.Change("a", mode(0o700)))
	must(t, s.Change("d/x", mode(0o711)))
	before := dump(t, s)
	h := &history{s: s}
	h.begin(t, 1)
	must(t, s.Change("a", mode(0o755)))
	must(t, s.Change("a", mode(0o750)))
	must(t, s.Change("new", mode(0o600)))
	must(t, s.Renamed("d", "e"))
	must(t, s.Exchanged("a", "e"))
	must(t, s.Exchanged("a", "e"))
	must(t, s.Renamed("a", "e/x"))
	must(t, s.Removed("new"))
	h.end(t, 1)
	after := dump(t, s)
	h.begin(t, -2)
	must(t, s.Removed("e"))
	h.end(t, -2)
	must(t, s.Close())

	s = openStore(t, path)
	h.s = s
	defer func() { s.Close() }()
	h.undo(t)
	if got := dump(t, s); !maps.Equal(got, after) {
		t.Errorf("one undone: %v, want %v", got, after)
	}
	h.undo(t)
	if got := dump(t, s); !maps.Equal(got, before) {
		t.Errorf("both undone: %v, want %v", got, before)
	}
	if got := shown(t, s, "a"); got != 0o100700 {
		t.Errorf("a: %o", got)
	}
	h.redo(t)
	if got := dump(t, s); !maps.Equal(got, after) {
		t.Errorf("redone: %v, want %v", got, after)
	}
	h.undo(t)
	h.begin(t, 3)
	must(t, s.Change("a", mode(0o111)))
	must(t, s.Settle(3, nil, nil)) // open: nothing to do
	if got := shown(t, s, "a"); got != 0o100111 {
		t.Errorf("a: %o", got)
	}
	must(t, s.Close()) // killed: the log rolls the step back
	s = openStore(t, path)
	h.s = s
	h.settle(t)
	if got := dump(t, s); !maps.Equal(got, before) {
		t.Errorf("rolled back: %v, want %v", got, before)
	}
	// The log dropped its oldest step: what was noted for it is forgotten.
	h.begin(t, 4)
	must(t, s.Change("a", mode(0o123)))
	h.end(t, 4)
	must(t, s.Settle(0, nil, nil))
	if got := shown(t, s, "a"); got != 0o100123 {
		t.Errorf("a, of an evicted step: %o", got)
	}
	must(t, s.db.View(func(tx *bolt.Tx) error {
		for _, b := range [][]byte{undoBucket, redoBucket} {
			if left, err := (steps{tx}).list(b); err != nil || len(left) > 0 {
				t.Errorf("still noted in %s: %v, %v", b, left, err)
			}
		}
		return nil
	}))
}

// TestRestore: one path gets back what it had before some steps, as a step that
// can be undone.
func TestRestore(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "meta.db"))
	defer s.Close()
	h := &history{s: s}
	must(t, s.Change("d/a", mode(0o700)))
	must(t, s.Change("d2", mode(0o700)))
	for id, m := range []uint32{0, 0o711, 0o722, 0o733} {
		if id > 0 {
			h.begin(t, int64(id))
			must(t, s.Change("d/a", mode(m)))
			must(t, s.Change("d/new", mode(m)))
			must(t, s.Change("d2", mode(m)))
			h.end(t, int64(id))
		}
	}
	now := dump(t, s)
	must(t, s.Restore("d", []int64{3, 2}, 4))
	for path, want := range map[string]uint32{"d/a": 0o100711, "d/new": 0o100711, "d2": 0o100733} {
		if got := shown(t, s, path); got != want {
			t.Errorf("%s: %o, want %o", path, got, want)
		}
	}
	must(t, s.Restore("d", []int64{4, 3, 2, 1}, 5))
	for path, want := range map[string]uint32{"d/a": 0o100700, "d/new": 0o100644, "d2": 0o100733} {
		if got := shown(t, s, path); got != want {
			t.Errorf("%s: %o, want %o", path, got, want)
		}
	}
	h.done = append(h.done, 4, 5)
	h.settle(t)
	h.undo(t)
	h.undo(t)
	if got := dump(t, s); !maps.Equal(got, now) {
		t.Errorf("%v, want %v", got, now)
	}
}

func dump(t testing.TB, s *Store) map[string]string {
	t.Helper()
	m := make(map[string]string)
	must(t, s.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(entriesBucket).ForEach(func(k, v []byte) error {
			m[string(k)] = string(v)
			return nil
		})
	}))
	return m
}

// TestStoreModel compares the store with a map, for random histories.
func TestStoreModel(t *testing.T) {
	paths := []string{"a", "a/b", "a/b/c", "ab", "a.b", "d", "d/b", "d/b/c"}
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		s := openStore(t, filepath.Join(dir, strings.Repeat("x", n%200)+rapid.StringMatching("[a-z]{12}").Draw(rt, "file")))
		defer s.Close()
		model := map[string]string{}
		h := &history{s: s}
		var states []map[string]string // before each step
		within := func(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }
		for step := int64(1); step <= 4; step++ {
			states = append(states, maps.Clone(model))
			h.begin(t, step)
			for range rapid.IntRange(0, 6).Draw(rt, "changes") {
				p := rapid.SampledFrom(paths).Draw(rt, "path")
				q := rapid.SampledFrom(paths).Draw(rt, "to")
				switch rapid.IntRange(0, 2).Draw(rt, "kind") {
				case 0:
					m := rapid.Uint32Range(0, modeMask).Draw(rt, "mode")
					must(t, s.Change(p, mode(m)))
					model[p] = string(Entry{HasMode: true, Mode: m}.encode())
				case 1:
					must(t, s.Removed(p))
					maps.DeleteFunc(model, func(k, _ string) bool { return within(k, p) })
				case 2:
					if within(p, q) || within(q, p) {
						continue
					}
					must(t, s.Renamed(p, q))
					maps.DeleteFunc(model, func(k, _ string) bool { return within(k, q) })
					for k, v := range maps.Clone(model) {
						if within(k, p) {
							delete(model, k)
							model[q+k[len(p):]] = v
						}
					}
				}
			}
			h.end(t, step)
			if got := dump(t, s); !maps.Equal(got, model) {
				rt.Fatalf("after step %d: %v, want %v", step, got, model)
			}
		}
		states = append(states, model)
		for step := int64(4); step >= 1; step-- {
			h.undo(t)
			if got := dump(t, s); !maps.Equal(got, states[step-1]) {
				rt.Fatalf("step %d undone: %v, want %v", step, got, states[step-1])
			}
		}
		for step := int64(1); step <= 4; step++ {
			h.redo(t)
			if got := dump(t, s); !maps.Equal(got, states[step]) {
				rt.Fatalf("step %d redone: %v, want %v", step, got, states[step])
			}
		}
	})
}

// TestDamaged: an entry that cannot be read is an error, not a mode.
func TestDamaged(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "meta.db"))
	defer s.Close()
	good := Entry{HasMode: true, Mode: 0o4755, Type: typeFIFO}.encode()
	bad := [][]byte{{1}, good[:entryBytes-1], append([]byte{2}, good[1:]...), slices.Replace(slices.Clone(good), 1, 2, 0xff),
		slices.Replace(slices.Clone(good), 4, 6, 0xff, 0xff), slices.Replace(slices.Clone(good), 14, 16, 0xff, 0xff)}
	for _, b := range bad {
		must(t, s.db.Update(func(tx *bolt.Tx) error { return tx.Bucket(entriesBucket).Put([]byte("p"), b) }))
		if _, err := s.Get("p"); !errors.Is(err, ErrEntry) {
			t.Errorf("%x: %v", b, err)
		}
	}
	if e, err := decodeEntry(good); err != nil || e.Mode != 0o4755 || e.Type != typeFIFO {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := Open(t.TempDir(), Options{}); err == nil {
		t.Error("a directory was opened as a store")
	}
}
