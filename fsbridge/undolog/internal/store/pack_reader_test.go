package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// TestUL08CorruptPack flips every byte of a pack in turn: nothing wrong is ever
// handed out, and nothing panics.
func TestUL08CorruptPack(t *testing.T) {
	b, objs := smallPack(t)
	want := map[format.ObjID][]byte{}
	p, err := newReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objs {
		want[obj] = readPacked(t, p, obj)
	}
	p.Close()
	for i := range b {
		for _, flip := range []byte{1, 0x80, 0xff} {
			c := bytes.Clone(b)
			c[i] ^= flip
			p, err := newReader(bytes.NewReader(c), int64(len(c)))
			if err != nil {
				if !errors.Is(err, errDamaged) {
					t.Fatalf("byte %d: %v", i, err)
				}
				continue
			}
			for _, obj := range objs {
				n := p.Node(obj)
				var got []byte
				err := p.Content(n, func(_ int64, b []byte) error { got = append(got, b...); return nil })
				if err == nil && !bytes.Equal(got, want[obj]) {
					t.Fatalf("byte %d: wrong content of %d without an error", i, obj)
				}
			}
			p.Close()
		}
	}
	for n := range len(b) {
		if p, err := newReader(bytes.NewReader(b[:n]), int64(n)); err == nil {
			p.Close()
			t.Fatalf("a pack cut off after %d bytes was accepted", n)
		}
	}
}

func readPacked(t testing.TB, p *PackReader, obj format.ObjID) (b []byte) {
	t.Helper()
	if err := p.Content(p.Node(obj), func(_ int64, piece []byte) error { b = append(b, piece...); return nil }); err != nil {
		t.Fatal(err)
	}
	return b
}

// writePack packs what is in the directory dir: the objects are numbered from 2 on
// in the order of names.
func writePack(t testing.TB, dir string, names ...string) (fd int) {
	t.Helper()
	fd, err := posix.Open(dir, posix.O_RDONLY|posix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = posix.Close(fd) })
	out, err := hostfs.OpenAt(fd, "pack", posix.O_RDWR|posix.O_CREAT|posix.O_TRUNC, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer hostfs.Close(out)
	w, err := NewPackWriter(out)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i, name := range names {
		if err := w.AddRoot(t.Context(), format.ObjID(i+2), fd, name, func(hostfs.ID) bool { return false }); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return fd
}

// smallPack returns the bytes of a pack and the files in it.
func smallPack(t testing.TB) ([]byte, []format.ObjID) {
	t.Helper()
	dir := t.TempDir()
	err := errors.Join(os.WriteFile(filepath.Join(dir, "a"), bytes.Repeat([]byte("abc"), 50), 0o644), os.WriteFile(filepath.Join(dir, "c"), nil, 0o644),
		os.Mkdir(filepath.Join(dir, "dir"), 0o755), os.WriteFile(filepath.Join(dir, "dir/b"), []byte("b"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	writePack(t, dir, "a", "c", "dir")
	b, err := os.ReadFile(filepath.Join(dir, "pack"))
	if err != nil {
		t.Fatal(err)
	}
	return b, []format.ObjID{2, 3}
}

func FuzzPack(f *testing.F) {
	b, _ := smallPack(f)
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add([]byte(magic + endMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := newReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		defer p.Close()
		for obj := range p.roots {
			n := p.Node(obj)
			if n.Meta.Size > 1<<20 || len(p.nodes) > 1000 {
				return
			}
			_ = p.Content(n, func(int64, []byte) error { return nil })
		}
	})
}

// FuzzPackIndex reaches the index decoder behind the checksums.
func FuzzPackIndex(f *testing.F) {
	f.Add(encodeIndex(nil, nil, nil))
	f.Add(encodeIndex([]groupRef{{off: 8, size: 20, raw: 30}}, []PackNode{
		{Obj: 2, Parent: -1, Link: -1, Meta: format.Meta{Mode: modeDir | 0o755}},
		{Parent: 0, Name: "f", Link: -1, Meta: format.Meta{Mode: modeRegular | 0o644, Size: 40},
			Xattrs: []hostfs.Xattr{{Name: "user.x", Value: []byte("v")}}, Segments: []PackSegment{{0, 10}, {20, 20}}},
		{Parent: 0, Name: "g", Link: 1},
	}, nil))
	f.Fuzz(func(t *testing.T, index []byte) {
		p := &PackReader{roots: map[format.ObjID]int{}, kids: map[int][]int{}}
		if err := p.decodeIndex(index, 1<<20); err != nil {
			return
		}
		again := &PackReader{roots: map[format.ObjID]int{}, kids: map[int][]int{}}
		if err := again.decodeIndex(encodeIndex(p.groups, p.nodes, nil), 1<<20); err != nil {
			t.Fatalf("what was decoded does not encode: %v", err)
		}
	})
}

// TestPackReaderShared reads a pack of more groups than are kept from many
// goroutines at once, which want the same groups and take each other's buffers
// over.
func TestPackReaderShared(t *testing.T) {
	dir := t.TempDir()
	const files = 40
	want, names := map[format.ObjID]string{}, []string{}
	for i := range files {
		content := strings.Repeat(fmt.Sprintf("file %d ", i), 60_000)
		want[format.ObjID(i+2)], names = content, append(names, fmt.Sprint(i))
		if err := os.WriteFile(filepath.Join(dir, names[i]), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fd := writePack(t, dir, names...)
	p, err := OpenPack(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if len(p.groups) <= cachedGroups {
		t.Fatalf("%d groups", len(p.groups))
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range files {
				obj := format.ObjID((i*(2*g+1)+g)%files + 2)
				var got []byte
				err := p.Content(p.Node(obj), func(_ int64, b []byte) error { got = append(got, b...); return nil })
				if err != nil || string(got) != want[obj] {
					t.Errorf("object %d: %d bytes, %v", obj, len(got), err)
				}
			}
		})
	}
	wg.Wait()
}
