//go:build linux

package undolog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
)

// memSink keeps a stamps file in memory.
type memSink struct{ b []byte }

func (m *memSink) Append(b []byte) error  { m.b = append(m.b, b...); return nil }
func (m *memSink) Replace(b []byte) error { m.b = bytes.Clone(b); return nil }

// someStamps is a table with one of everything.
func someStamps(t testing.TB) (*stampTable, *memSink) {
	t.Helper()
	sink := &memSink{}
	s := newStampTable(hostfs.ID{Dev: 5, Ino: 2}, sink)
	for seq := uint64(1); seq <= 3; seq++ {
		s.setSeq(seq)
		for i := range uint64(20) {
			d := s.dirNumber(hostfs.ID{Dev: 5, Ino: 100 + i + seq})
			s.putName(d, fmt.Sprint("name", i), 1000+i)
			s.putInode(hostfs.ID{Dev: 5 + i%2, Ino: 1000 + i}, i*seq, i%3)
		}
		s.putName(0, "absent", 0)
		s.dropInode(hostfs.ID{Dev: 5, Ino: 1004})
		s.putDir(2, hostfs.ID{Dev: 5, Ino: 900 + seq}, true)
		s.putBarrier(barrier{id: seq, after: StepID(seq), seq: seq, at: time.Unix(0, int64(seq)), paths: []string{"a\n", "b\xff"}})
		if err := s.flush(); err != nil {
			t.Fatal(err)
		}
	}
	s.dropBarrier(2)
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	return s, sink
}

func sameStamps(a, b *stampTable) bool {
	return maps.Equal(a.dirs, b.dirs) && slices.Equal(a.homes, b.homes) && maps.Equal(a.names, b.names) &&
		maps.Equal(a.inodes, b.inodes) && a.seq == b.seq &&
		slices.EqualFunc(a.barriers, b.barriers, func(x, y barrier) bool {
			return x.id == y.id && x.after == y.after && x.seq == y.seq && x.at.Equal(y.at) && slices.Equal(x.paths, y.paths)
		})
}

func TestStampsRoundTrip(t *testing.T) {
	s, sink := someStamps(t)
	r := newStampTable(s.root, nil)
	if n, err := r.load(sink.b); err != nil || n != int64(len(sink.b)) || !sameStamps(s, r) {
		t.Fatalf("loaded %d of %d bytes, %v", n, len(sink.b), err)
	}
	if err := s.compact(0); err != nil {
		t.Fatal(err)
	}
	c := newStampTable(s.root, nil)
	if _, err := c.load(sink.b); err != nil || !sameStamps(s, c) {
		t.Fatalf("after compaction: %v", err)
	}
	if err := s.compact(4); err != nil {
		t.Fatal(err)
	}
	if len(s.names) != 0 || len(s.inodes) != 0 || len(s.dirs) != 1 || len(s.barriers) != 2 {
		t.Errorf("compaction kept %d names, %d inodes, %d directories", len(s.names), len(s.inodes), len(s.dirs))
	}
	// A device number that changed over a restart of the machine.
	moved := newStampTable(hostfs.ID{Dev: 77, Ino: 2}, nil)
	if _, err := moved.load(sink.b); err != nil || moved.dirs[hostfs.ID{Dev: 77, Ino: 2}] != 0 {
		t.Errorf("with another device number: %v", err)
	}
}

// TestStampsDamaged cuts the file everywhere and flips every byte: what is read
// is what was written before the damage.
func TestStampsDamaged(t *testing.T) {
	s, sink := someStamps(t)
	for n := range len(sink.b) {
		r := newStampTable(s.root, nil)
		good, err := r.load(sink.b[:n])
		if good > int64(n) || (err == nil && good != int64(n)) {
			t.Fatalf("cut at %d: %d bytes are good, %v", n, good, err)
		}
		b := bytes.Clone(sink.b)
		b[n] ^= 0x41
		r = newStampTable(s.root, nil)
		if good, err := r.load(b); err == nil || good > int64(n) {
			t.Fatalf("byte %d flipped: %d bytes are good, %v", n, good, err)
		}
	}
}

func FuzzStamps(f *testing.F) {
	_, sink := someStamps(f)
	f.Add(sink.b)
	f.Add(sink.b[:len(sink.b)/2])
	f.Add([]byte(stampMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newStampTable(hostfs.ID{Dev: 5, Ino: 2}, &memSink{})
		if good, _ := r.load(b); good > int64(len(b)) {
			t.Fatal("more is good than there is")
		}
	})
}

// FuzzStampsReplay reaches the decoder behind the checksums, and whatever it
// accepts survives compaction.
func FuzzStampsReplay(f *testing.F) {
	_, sink := someStamps(f)
	f.Add(sink.b[len(stampMagic)+8:])
	f.Add([]byte{stampOpDir, 200, 1, 1, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) > stampFrameMax {
			return
		}
		out := &memSink{}
		r := newStampTable(hostfs.ID{Dev: 5, Ino: 2}, out)
		if err := r.replay(ops); err != nil {
			return
		}
		if err := r.compact(0); err != nil {
			t.Fatal(err)
		}
		again := newStampTable(r.root, nil)
		if _, err := again.load(out.b); err != nil {
			t.Fatalf("after compaction: %v", err)
		}
	})
}

// TestStampsTornTail: a log whose stamps file was cut opens, and says so.
func TestStampsTornTail(t *testing.T) {
	var warned []Warning
	s := newSession(t, nil)
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "1") })
	if err := s.l.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.l.o.Dir, "stamps")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b[:len(b)-3], 0o600); err != nil {
		t.Fatal(err)
	}
	s.l = reopenLog(t, filepath.Dir(s.work), func(o *Options) { o.Warn = func(w Warning) { warned = append(warned, w) } })
	if len(warned) != 1 || warned[0].Code != WarnDamaged {
		t.Errorf("warnings: %+v", warned)
	}
	s.wantBlocked(1) // what was lost is taken anew: the step is newer than the table
	s.a = undologtest.New(s.l.root, s.l)
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "2") })
	s.wantBlocked(2)
}

// TestStampsFail: without stamps the step is kept all the same.
func TestStampsFail(t *testing.T) {
	s := newSession(t, nil)
	s.l.stamps.file = failingSink{}
	if e := s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "1") }); e == nil {
		t.Fatal("no step")
	}
	if _, err := s.l.Undo(context.Background(), UndoOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestStampsFailOnce: what could not be written is written with what comes next.
func TestStampsFailOnce(t *testing.T) {
	var warned []Warning
	s := newSession(t, nil)
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "1") })
	file := s.l.stamps.file
	s.l.stamps.file = failingSink{}
	s.step(func(a *undologtest.Applier) error {
		return errors.Join(a.Mkdir("d", 0o755), writeFileVia(a, "d/g", "1"), writeFileVia(a, "f", "22"))
	})
	s.l.stamps.file = file
	s.step(func(a *undologtest.Applier) error {
		return errors.Join(a.Mkdir("e", 0o755), writeFileVia(a, "e/h", "1"))
	})
	if err := s.l.Close(); err != nil {
		t.Fatal(err)
	}
	s.l = reopenLog(t, filepath.Dir(s.work), func(o *Options) { o.Warn = func(w Warning) { warned = append(warned, w) } })
	if len(warned) != 0 {
		t.Errorf("warnings: %+v", warned)
	}
	s.wantBlocked(3)
	s.outside("d/g", "by somebody")
	s.outside("e/h", "by somebody")
	s.wantBlocked(3, "d/g", "e/h")
}

type failingSink struct{}

func (failingSink) Append([]byte) error  { return errors.New("no space") }
func (failingSink) Replace([]byte) error { return errors.New("no space") }

// BenchmarkStamps is what a commit pays for stamps, for each path.
func BenchmarkStamps(b *testing.B) {
	const files = 10_000
	l, work := testLog(b, nil)
	for i := range files {
		mustWrite(b, filepath.Join(work, fmt.Sprintf("d%d/sub/f%d", i/20, i)), "x")
	}
	root, err := hostfs.OpenRoot(work)
	if err != nil {
		b.Fatal(err)
	}
	defer root.Close()
	t := newTouched()
	t.known[root.ID()] = struct{}{}
	for i := range files / 20 {
		t.names[root.ID()] = append(t.names[root.ID()], fmt.Sprint("d", i))
	}
	for b.Loop() {
		if err := l.stamps.settle(root, 1, t); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/files, "ns/path")
}
