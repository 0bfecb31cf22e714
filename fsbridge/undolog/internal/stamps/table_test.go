package stamps

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// memSink keeps a stamps file in memory.
type memSink struct{ b []byte }

func (m *memSink) Append(b []byte) error  { m.b = append(m.b, b...); return nil }
func (m *memSink) Replace(b []byte) error { m.b = bytes.Clone(b); return nil }

func newTestTable(root hostfs.ID, sink Sink) *Table {
	return newTable(root, format.NewVolumes(root.Dev, map[uint64]uint64{format.OtherVolume + 6: 6}, func(dev uint64) uint64 { return format.OtherVolume + dev }), sink)
}

// someStamps is a table with one of everything.
func someStamps(t testing.TB) (*Table, *memSink) {
	t.Helper()
	sink := &memSink{}
	s := newTestTable(hostfs.ID{Dev: 5, Ino: 2}, sink)
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
		s.putBarrier(barrier{id: seq, after: format.StepID(seq), seq: seq, at: time.Unix(0, int64(seq)), paths: []string{"a\n", "b\xff"}})
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

func sameStamps(a, b *Table) bool {
	return maps.Equal(a.dirs, b.dirs) && slices.Equal(a.homes, b.homes) && maps.Equal(a.names, b.names) &&
		maps.Equal(a.inodes, b.inodes) && a.seq == b.seq &&
		slices.EqualFunc(a.barriers, b.barriers, func(x, y barrier) bool {
			return x.id == y.id && x.after == y.after && x.seq == y.seq && x.at.Equal(y.at) && slices.Equal(x.paths, y.paths)
		})
}

func TestStampsRoundTrip(t *testing.T) {
	s, sink := someStamps(t)
	r := newTestTable(s.root, nil)
	if n, err := r.load(sink.b); err != nil || n != int64(len(sink.b)) || !sameStamps(s, r) {
		t.Fatalf("loaded %d of %d bytes, %v", n, len(sink.b), err)
	}
	if err := s.compact(0); err != nil {
		t.Fatal(err)
	}
	c := newTestTable(s.root, nil)
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
	moved := newTestTable(hostfs.ID{Dev: 77, Ino: 2}, nil)
	if _, err := moved.load(sink.b); err != nil || moved.dirs[hostfs.ID{Dev: 77, Ino: 2}] != 0 {
		t.Errorf("with another device number: %v", err)
	}
}

// TestStampsDamaged cuts the file everywhere and flips every byte: what is read
// is what was written before the damage.
func TestStampsDamaged(t *testing.T) {
	s, sink := someStamps(t)
	for n := range len(sink.b) {
		r := newTestTable(s.root, nil)
		good, err := r.load(sink.b[:n])
		if good > int64(n) || (err == nil && good != int64(n)) {
			t.Fatalf("cut at %d: %d bytes are good, %v", n, good, err)
		}
		b := bytes.Clone(sink.b)
		b[n] ^= 0x41
		r = newTestTable(s.root, nil)
		if good, err := r.load(b); err == nil || good > int64(n) {
			t.Fatalf("byte %d flipped: %d bytes are good, %v", n, good, err)
		}
	}
}

func FuzzStamps(f *testing.F) {
	_, sink := someStamps(f)
	f.Add(sink.b)
	f.Add(sink.b[:len(sink.b)/2])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newTestTable(hostfs.ID{Dev: 5, Ino: 2}, &memSink{})
		if good, _ := r.load(b); good > int64(len(b)) {
			t.Fatal("more is good than there is")
		}
	})
}

// FuzzStampsReplay reaches the decoder behind the checksums, and whatever it
// accepts survives compaction.
func FuzzStampsReplay(f *testing.F) {
	_, sink := someStamps(f)
	f.Add(sink.b[len(magic)+8:])
	f.Add([]byte{opDir, 200, 1, 1, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) > frameMax {
			return
		}
		out := &memSink{}
		r := newTestTable(hostfs.ID{Dev: 5, Ino: 2}, out)
		if err := r.replay(ops); err != nil {
			return
		}
		if err := r.compact(0); err != nil {
			t.Fatal(err)
		}
		again := newTestTable(r.root, nil)
		if _, err := again.load(out.b); err != nil {
			t.Fatalf("after compaction: %v", err)
		}
	})
}

// BenchmarkStamps is what a commit pays for stamps, for each path.
func BenchmarkStamps(b *testing.B) {
	const files = 10_000
	work := b.TempDir()
	for i := range files {
		p := filepath.Join(work, fmt.Sprintf("d%d/sub/f%d", i/20, i))
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte("x"), 0o644)); err != nil {
			b.Fatal(err)
		}
	}
	root, err := hostfs.OpenRoot(work)
	if err != nil {
		b.Fatal(err)
	}
	defer root.Close()
	table := newTestTable(root.ID(), &memSink{})
	t := NewTouched()
	t.known[root.ID()] = struct{}{}
	for i := range files / 20 {
		t.names[root.ID()] = append(t.names[root.ID()], fmt.Sprint("d", i))
	}
	for b.Loop() {
		if err := table.Settle(root, 1, t); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/files, "ns/path")
}
