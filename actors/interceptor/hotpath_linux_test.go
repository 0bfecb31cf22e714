package interceptor

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// place binds the object to the file at path, for the log to find.
type place struct {
	root *fsbridge.Object
	dir  string
	name string
}

func (p *place) Binding() (*fsbridge.Object, string, bool) { return p.root, p.name, p.root != nil }
func (p *place) Known() (*fsbridge.Object, string, bool)   { return p.Binding() }
func (p *place) Open(flags int) (int, error) {
	return syscall.Open(filepath.Join(p.dir, p.name), flags|syscall.O_CLOEXEC, 0)
}
func (p *place) Writers() int { return 1 }
func (p *place) Handles() int { return 1 }

func writeOp(t testing.TB, r *rig) *fsbridge.Op {
	root := &fsbridge.Object{ID: statID(t, r.dir), Type: syscall.S_IFDIR}
	root.Place = &place{dir: r.dir}
	n := &fsbridge.Object{ID: statID(t, filepath.Join(r.dir, "f")), Type: syscall.S_IFREG, Place: &place{root, r.dir, "f"}}
	return &fsbridge.Op{Kind: fsbridge.OpWrite, Node: n, Len: 1}
}

func statID(t testing.TB, path string) hostfs.ID {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := hostfs.StatFD(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return st.ID
}

// What is captured already costs no allocation and no message, also when
// safeguards are armed.
func TestHotPathAllocatesNothing(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"plain": nil,
		"armed": func(o *Options) {
			o.Safeguards = Safeguards{DeleteThreshold: 5, OverwriteBytes: 1 << 20, RenameOver: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, map[string]string{"f": "content"}, change)
			op := writeOp(t, r)
			once := func() {
				tk, err := r.hooks.Begin(op)
				if err != nil {
					t.Fatal(err)
				}
				r.hooks.End(tk, op, nil, nil)
			}
			once() // the first touch
			r.hooks.SetTell(func(m any) { t.Errorf("message on the hot path: %T", m) })
			if n := testing.AllocsPerRun(1000, once); n != 0 {
				t.Errorf("%v allocations", n)
			}
			r.hooks.SetTell(r.tell)
		})
	}
}

func BenchmarkHotPath(b *testing.B) {
	r := newRig(b, map[string]string{"f": "content"}, nil)
	op := writeOp(b, r)
	b.ReportAllocs()
	for b.Loop() {
		tk, err := r.hooks.Begin(op)
		if err != nil {
			b.Fatal(err)
		}
		r.hooks.End(tk, op, nil, nil)
	}
}

// asked counts how often the host would be asked for a name.
type asked struct {
	place
	times *int
}

func (p *asked) Binding() (*fsbridge.Object, string, bool) {
	*p.times++
	return p.place.Binding()
}
func (p *asked) Known() (*fsbridge.Object, string, bool) { return p.place.Binding() }

// To find out whether a name is protected, the host is asked for none of the directories above it: it would be for each, at each operation.
func TestSpotAsksNoDirectory(t *testing.T) {
	times := 0
	dir := &fsbridge.Object{Type: syscall.S_IFDIR, Place: &asked{times: &times}}
	for _, name := range []string{"a", "b", "c"} {
		dir = &fsbridge.Object{Type: syscall.S_IFDIR, Place: &asked{place{root: dir, name: name}, &times}}
	}
	p, ok := spotOf(dir, "f")
	if got := strings.Join(p.names, "/"); got != "a/b/c/f" || !ok || p.parents[3] != dir || times != 0 {
		t.Errorf("%q, %v, the host was asked %d times", got, ok, times)
	}
	file := &fsbridge.Object{Type: syscall.S_IFREG, Place: &asked{place{root: dir, name: "f"}, &times}}
	if p, ok := spotOf(file, ""); strings.Join(p.names, "/") != "a/b/c/f" || !ok || times != 1 {
		t.Errorf("%q, %v, the host was asked %d times: a file may have several names", p.names, ok, times)
	}
}
