package vfs_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// grantModel does things at random with a few files, of which it keeps descriptors and
// mappings for as long as it likes.
type grantModel struct {
	*folder
	r      *rand.Rand
	open   []*os.File
	mapped [][]byte
	log    []string
}

func (m *grantModel) did(format string, a ...any) { m.log = append(m.log, fmt.Sprintf(format, a...)) }

func (m *grantModel) name() string { return string(rune('a' + m.r.IntN(5))) }

// do does one thing. That it cannot be done is nothing.
func (m *grantModel) do() {
	name, other := m.name(), m.name()
	switch k := m.r.IntN(20); {
	case k < 4:
		m.grantOne(name)
	case k < 9 && len(m.open) > 0:
		f := m.open[m.r.IntN(len(m.open))]
		_, err := f.WriteAt(fmt.Appendf(nil, "%d", m.r.Uint64()), m.r.Int64N(100))
		m.did("write %s: %v", f.Name(), err)
	case k == 9 && len(m.open) > 0:
		f := m.open[m.r.IntN(len(m.open))]
		m.did("ftruncate %s: %v", f.Name(), f.Truncate(m.r.Int64N(80)))
	case k < 12 && len(m.open) > 0:
		i := m.r.IntN(len(m.open))
		m.did("close %s: %v", m.open[i].Name(), m.open[i].Close())
		m.open = append(m.open[:i], m.open[i+1:]...)
	case k == 12 && len(m.open) > 0:
		m.mapOne(m.open[m.r.IntN(len(m.open))])
	case k == 13 && len(m.mapped) > 0:
		m.did("through a mapping: %v", poke(m.mapped[m.r.IntN(len(m.mapped))], m.r.IntN(20), byte(m.r.Uint32())))
	case k == 14 && len(m.mapped) > 0:
		m.did("munmap: %v", unix.Munmap(m.mapped[0]))
		m.mapped = m.mapped[1:]
	case k == 15:
		m.did("unlink %s: %v", name, m.tree.Unlink(vfs.Request{}, vfs.RootID, name))
	case k == 16:
		m.did("rename %s %s: %v", name, other, m.tree.Rename(vfs.Request{}, vfs.RootID, name, vfs.RootID, other, 0))
	case k == 17:
		m.did("exchange %s %s: %v", name, other, m.tree.Rename(vfs.Request{}, vfs.RootID, name, vfs.RootID, other, unix.RENAME_EXCHANGE))
	case k == 18:
		m.onNode(name, func(node uint64) error {
			_, err := m.tree.Link(vfs.Request{}, node, vfs.RootID, other)
			m.did("link %s %s: %v", name, other, err)
			return err
		})
	case k == 19:
		m.onNode(name, func(node uint64) error {
			_, err := m.tree.SetAttr(vfs.Request{}, node, &vfs.SetAttr{Set: vfs.SetMode, Mode: 0o600 | m.r.Uint32N(0o100)})
			m.did("chmod %s: %v", name, err)
			return err
		})
	}
}

// poke writes to a mapping, unless the file has become too short for it.
func poke(p []byte, i int, b byte) (err any) {
	defer func() { err = recover() }()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	p[i] = b
	return nil
}

func (m *grantModel) onNode(name string, f func(node uint64) error) {
	if e, err := m.tree.Lookup(vfs.RootID, name); err == nil && e.Node != 0 {
		_ = f(e.Node)
		m.tree.Forget(e.Node, 1)
	}
}

func (m *grantModel) grantOne(name string) {
	flags := []int{os.O_RDWR, os.O_RDWR | os.O_CREATE, os.O_RDWR | os.O_CREATE | os.O_TRUNC, os.O_RDWR | os.O_TRUNC}[m.r.IntN(4)]
	f, err := m.grant(name, flags, 0o644)
	m.did("open %s %#x: %v", name, flags, err)
	if err == nil {
		m.open = append(m.open, f)
	}
}

func (m *grantModel) mapOne(f *os.File) {
	st, err := f.Stat()
	if err != nil || st.Size() < 20 {
		return
	}
	p, err := unix.Mmap(int(f.Fd()), 0, 20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	m.did("mmap %s: %v", f.Name(), err)
	if err == nil {
		m.mapped = append(m.mapped, p)
	}
}

// TestMBGrantModel: whatever is written to granted descriptors and mappings, in whichever step,
// the undo of each step, newest first, gives back what there was before it. Steps that were rolled back and
// undone are followed by others.
func TestMBGrantModel(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := &grantModel{folder: newFolder(t), r: rand.New(rand.NewPCG(seed, 1))}
			defer func() {
				for _, p := range m.mapped {
					check(t, unix.Munmap(p))
				}
				if t.Failed() {
					for _, line := range m.log {
						t.Log(line)
					}
				}
			}()
			for i := range 4 {
				m.write(string(rune('a'+i)), fmt.Sprintf("content of file number %d, some bytes", i))
			}
			m.run()
		})
	}
}

func (m *grantModel) run() {
	m.t.Helper()
	var before []*treesnap.Snapshot
	for range 12 {
		now := m.snapshot()
		switch k := m.r.IntN(10); {
		case k == 0 && len(before) > 0:
			m.did("-- undo")
			m.undo()
			treesnap.Same(m.t, "before the step that was undone", before[len(before)-1], m.snapshot())
			before = before[:len(before)-1]
		case k == 1:
			m.did("-- rolled back")
			_, err := m.Step(m.t.Context(), "fails", func() error { m.some(); return syscall.ECANCELED })
			if err == nil {
				m.t.Fatal("no error")
			}
			treesnap.Same(m.t, "after a rollback", now, m.snapshot())
		default:
			m.did("-- step")
			if e := m.step(m.some); e != nil {
				before = append(before, now)
			} else {
				treesnap.Same(m.t, "without an entry", now, m.snapshot())
			}
		}
	}
	m.did("-- unwind")
	m.unwind(before)
}

func (m *grantModel) some() {
	for range m.r.IntN(8) {
		m.do()
	}
}
