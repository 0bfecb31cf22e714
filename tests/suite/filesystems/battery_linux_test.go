package filesystems

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/tests/kit/direct"
	"github.com/codeagent/sandbox/tests/kit/filesystems"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// part is a tree, and what is done to it. Each has a directory of its own, so that all can be
// done in one step, or each in one.
type part struct {
	name, fill, change string
	needs              []hostfs.Ability
	not                []filesystems.Kind // that do otherwise, without us
	rare               bool               // left out where each program takes long to start
	held               bool               // the log's file system must be able to hold it, too
}

// parts is the battery. The scripts begin in the part's directory.
func parts() []part {
	return []part{
		{name: "delete", fill: "mkdir -p a/b/c e; echo 1 >a/1; echo 2 >a/b/2; seq 30000 >a/b/c/3; chmod 700 a/b", change: "rm -r a e"},
		{name: "rename", fill: "mkdir -p a/b c; echo 1 >a/1; echo 2 >a/b/2; echo 3 >c/3", change: "mv a c/d; echo x >>c/d/b/2; mv c z; mv z/3 z/d/b/"},
		{name: "links", rare: true, needs: []hostfs.Ability{hostfs.CanLink}, fill: "mkdir -p a/b; echo x >a/f; ln a/f a/b/g; ln a/f h", change: "rm a/f; mv a/b/g k; ln k a/l"},
		// A write separates the names of a lower file without index; ntfs-3g has a cache for each name.
		{name: "linkwrite", needs: []hostfs.Ability{hostfs.CanLink}, not: []filesystems.Kind{filesystems.Overlay, filesystems.NTFS},
			fill: "mkdir -p a/b; echo x >a/f; ln a/f a/b/g; ln a/f h", change: "rm a/f; echo y >h; mv a/b/g k"},
		{name: "linktree", rare: true, needs: []hostfs.Ability{hostfs.CanLink}, fill: "mkdir -p a/b; echo x >a/f; ln a/f a/b/g; echo y >o; ln o a/o", change: "rm -r a"},
		{name: "linkover", needs: []hostfs.Ability{hostfs.CanLink}, fill: "echo x >a; ln a b; ln -s gone s; ln s t; seq 2 >c; seq 3 >d; : >e; : >f", change: "mv c a; mv d b; mv e s; mv f t"},
		{name: "mode", needs: []hostfs.Ability{hostfs.CanMode}, fill: "echo 1 >a; echo 2 >b; mkdir d; chmod 640 a; chmod 2750 d", change: "chmod 600 a b; chmod 4755 b 2>/dev/null || :; chmod 700 d; chmod 1777 d"},
		{name: "xattr", needs: []hostfs.Ability{hostfs.CanXattr}, fill: "echo 1 >a; mkdir d; setfattr -n user.k -v v a; setfattr -n user.big -v $(printf %0300d 7) d",
			change: "setfattr -n user.k -v w a; setfattr -n user.n -v 1 a; rmdir d"},
		{name: "acl", rare: true, needs: []hostfs.Ability{hostfs.CanACL}, fill: "mkdir -p a/b a/c; setfacl -d -m u:12345:rwx a; echo 1 >a/f; setfacl -m g:54321:rw a/f; chmod 700 a/b; setfacl -b -k a/b; setfacl -m u:1:r a/c",
			change: "rm -r a/b; chmod 600 a/f; rm -r a"},
		{name: "times", fill: "mkdir d; echo 1 >a; echo 2 >d/b; touch -d 1999-01-01T00:00:00.123456788 a; touch -d 1960-02-03 d/b; touch -d 2001-02-03 d", change: "touch a; echo 3 >>d/b; echo 4 >d/new"},
		{name: "future", rare: true, needs: []hostfs.Ability{hostfs.CanNanotimes}, fill: "echo 1 >a; echo 2 >b; mkdir d; touch -d 2300-01-01T00:00:00.123456788 a b d", change: "rm a; touch b; rmdir d"},
		{name: "symlinks", needs: []hostfs.Ability{hostfs.CanSymlink}, fill: "ln -s nowhere a; ln -s . b; ln -s /etc c", change: "rm a; ln -sfn elsewhere b; mv c d; ln -s new e"},
		{name: "fifos", rare: true, needs: []hostfs.Ability{hostfs.CanFifo}, fill: "mkfifo a b; chmod 640 b", change: "rm a; mv b c; mkfifo d"},
		{name: "sparse", held: true, needs: []hostfs.Ability{hostfs.CanHole, hostfs.CanSeekHole}, fill: "truncate -s 3M s; printf x | dd of=s bs=1 seek=1M conv=notrunc status=none; truncate -s 2M t", change: "rm s; printf y >>t"},
		{name: "replace", fill: "echo 1 >f; mkdir -p d/e k; echo 2 >d/e/x; echo 3 >g; echo 4 >h; echo 8 >k/o", change: "rm f; mkdir f; echo 5 >f/y; rm -r d; echo 6 >d; echo 7 >n; mv n g; mv h f/; echo 9 >k/n; mv k/n k/o; rm -r k"},
		{name: "write", fill: "seq 100000 >a; echo 1 >b; : >c; seq 5000 >d", change: "printf XXX | dd of=a bs=1 seek=200000 conv=notrunc status=none; truncate -s 10 a; echo 2 >b; seq 9999 >c; seq 3 >>d"},
		{name: "flags", rare: true, held: true, fill: "head -c 100000 /dev/zero >n; mkdir D; echo 1 >D/1; chattr +d n 2>/dev/null && chattr +A +d D || :", change: "rm -r n D"},
	}
}

// cannot says what a kind of file system cannot do. docs/filesystems.md says the same.
func cannot(kind filesystems.Kind) []hostfs.Ability {
	switch kind {
	case filesystems.Bindfs:
		return []hostfs.Ability{hostfs.CanRenameNew, hostfs.CanExchange, hostfs.CanTmpfile, hostfs.CanAllocate, hostfs.CanSeekHole}
	case filesystems.NTFS:
		return []hostfs.Ability{hostfs.CanRenameNew, hostfs.CanExchange, hostfs.CanMode, hostfs.CanACL, hostfs.CanTmpfile, hostfs.CanAllocate,
			hostfs.CanSeekHole, hostfs.CanNanotimes}
	case filesystems.NineP: // FIFOs are what QEMU of some versions has, and of others not
		return []hostfs.Ability{hostfs.CanRenameNew, hostfs.CanExchange, hostfs.CanACL, hostfs.CanTmpfile, hostfs.CanAllocate, hostfs.CanSeekHole,
			hostfs.CanNanotimes}
	case filesystems.NFS:
		return []hostfs.Ability{hostfs.CanRenameNew, hostfs.CanExchange, hostfs.CanACL, hostfs.CanTmpfile}
	}
	return nil
}

// allEnv has the whole battery done inside of a guest, too.
const allEnv = "SANDBOX_FILESYSTEMS_ALL"

// brief tells that the processor is emulated: two variants, and not the rare parts, take a minute.
func brief() bool { return os.Getenv(filesystems.GuestEnv) != "" && os.Getenv(allEnv) == "" }

// variant says where the log is, whether it is packed, and whether each part is a step. A bare log is on a file system that
// holds no attributes.
type variant struct{ apart, packed, single, bare bool }

func (v variant) String() string {
	name := "beside"
	if v.apart {
		name = "apart"
	}
	if v.bare {
		name += " without attributes"
	}
	if v.packed {
		name += " packed"
	}
	return name
}

// TestFileSystems goes through the battery on each kind of file system.
func TestFileSystems(t *testing.T) {
	require.Root(t)
	require.Mount(t)
	for _, p := range []struct{ name, pkg string }{{"setfacl", "acl"}, {"setfattr", "attr"}, {"chattr", "e2fsprogs"}} {
		require.Program(t, p.name, p.pkg)
	}
	for _, kind := range filesystems.All() {
		t.Run(string(kind), func(t *testing.T) {
			for _, v := range variants(kind) {
				t.Run(v.String(), func(t *testing.T) { onKind(t, kind, v) })
			}
		})
	}
}

func variants(kind filesystems.Kind) []variant {
	all := []variant{{}, {apart: true, packed: true}, {packed: true, single: true}, {apart: true, single: true}}
	switch {
	case brief():
		return all[:2]
	case kind == filesystems.Ext4:
		return append(all, variant{apart: true, bare: true}, variant{apart: true, bare: true, packed: true})
	}
	return all
}

func onKind(t *testing.T, kind filesystems.Kind, v variant) {
	var lacks []hostfs.Ability
	base := filesystems.Mount(t, kind, func(dir string) {
		lacks = tried(t, dir)
		work := filepath.Join(dir, "work")
		check(t, os.Mkdir(work, 0o755))
		ps := able(kind, lacks, v)
		for _, p := range ps {
			check(t, os.Mkdir(filepath.Join(work, p.name), 0o755))
		}
		shell(t, work, ps, func(p part) string { return p.fill })
	})
	got := tried(t, base)
	if kind == filesystems.NineP {
		got = slices.DeleteFunc(got, func(a hostfs.Ability) bool { return a == hostfs.CanFifo })
	}
	if !slices.Equal(got, cannot(kind)) {
		t.Errorf("%s cannot do %q, want %q", kind, got, cannot(kind))
	}
	undo := filepath.Join(base, "undo")
	if v.apart {
		dir := t.TempDir()
		if v.bare {
			check(t, unix.Mount("ramfs", dir, "ramfs", 0, ""))
			t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
		}
		undo = filepath.Join(dir, "undo") // which the log makes, for its owner only
	}
	b := &battery{t: t, work: filepath.Join(base, "work"), mount: t.TempDir(), v: v}
	if kind == filesystems.NineP { // a program cannot set the fraction of a second
		b.about = time.Second - 1
	}
	b.open(undo)
	defer func() { check(t, b.s.Close()) }()
	if v.single && !slices.Contains([]filesystems.Kind{filesystems.Bindfs, filesystems.NTFS, filesystems.NineP, filesystems.NFS}, kind) { // which are slow
		for _, p := range able(kind, lacks, v) {
			t.Run(p.name, func(t *testing.T) { b.round(t, []part{p}) })
		}
		return
	}
	b.round(t, able(kind, lacks, v))
}

// able are the parts that a file system without some abilities can hold.
func able(kind filesystems.Kind, lacks []hostfs.Ability, v variant) []part {
	return slices.DeleteFunc(parts(), func(p part) bool {
		return p.rare && brief() || p.held && v.bare || slices.Contains(p.not, kind) || slices.ContainsFunc(p.needs, func(a hostfs.Ability) bool { return slices.Contains(lacks, a) })
	})
}

// tried says what the file system of dir cannot do.
func tried(t *testing.T, dir string) []hostfs.Ability {
	t.Helper()
	r, err := hostfs.OpenRoot(dir)
	check(t, err)
	defer r.Close()
	list, err := hostfs.Try(r.FD())
	check(t, err)
	return list
}

// battery is a folder behind a bridge, with a log.
type battery struct {
	t           *testing.T
	work, mount string
	v           variant
	s           *direct.Session
	about       time.Duration // times may differ by that
}

func (b *battery) open(undo string) {
	b.t.Helper()
	var err error
	b.s, err = direct.Open(b.t.Context(), direct.Options{Dir: b.work, Mount: b.mount, Undo: undo})
	check(b.t, err)
}

// round does some parts in one step, and takes that back, does it again, and takes it back.
func (b *battery) round(t *testing.T, parts []part) {
	before := take(t, b.work)
	e, err := b.s.Step(t.Context(), "battery", func() error {
		shell(t, b.mount, parts, func(p part) string { return p.change })
		return nil
	})
	check(t, err)
	if e == nil {
		t.Fatal("nothing changed")
	}
	after := take(t, b.work)
	b.pack(t)
	check(t, b.s.Undo(t.Context(), 1))
	b.same(t, "undo", before, take(t, b.work))
	check(t, b.s.Redo(t.Context(), 1))
	b.same(t, "redo", after, take(t, b.work))
	b.pack(t)
	check(t, b.s.Undo(t.Context(), 1))
	b.same(t, "second undo", before, take(t, b.work))
}

func (b *battery) pack(t *testing.T) {
	t.Helper()
	if b.v.packed {
		_, err := b.s.Log.GC(t.Context(), undolog.GCOptions{CompressAll: true})
		check(t, err)
	}
}

// snapshot is a tree with what treesnap leaves out: flags, and what files occupy.
type snapshot struct {
	tree  *treesnap.Snapshot
	extra map[string]string
}

func take(t *testing.T, dir string) snapshot {
	t.Helper()
	s := snapshot{tree: treesnap.MustTake(t, dir), extra: map[string]string{}}
	for path, e := range s.tree.Entries {
		if e.Type != 0 && e.Type != fs.ModeDir {
			continue
		}
		f, err := os.Open(filepath.Join(dir, path))
		check(t, err)
		var st unix.Stat_t
		check(t, unix.Fstat(int(f.Fd()), &st))
		flags, _ := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
		check(t, f.Close())
		const seen = 0x40 | 0x80 // no dump, no access times
		s.extra[path] = fmt.Sprintf("flags %x seconds %d", flags&seen, st.Mtim.Sec)
		if strings.HasPrefix(path, "sparse/") && st.Blocks*512 > st.Size/2 {
			s.extra[path] += " without holes"
		}
	}
	return s
}

func (b *battery) same(t *testing.T, what string, want, got snapshot) {
	t.Helper()
	if !treesnap.AssertEqual(t, want.tree, got.tree, treesnap.Options{IgnoreLinks: true, MtimeTolerance: b.about}) {
		t.Errorf("after the %s", what)
	}
	for path, w := range want.extra {
		if g := got.extra[path]; g != w {
			t.Errorf("after the %s: %s has %s, want %s", what, path, g, w)
		}
	}
}

// shell runs a script of each part, in its directory below dir. Not by Dir: this process may be the one that serves it, and
// would wait in fork for a child that waits for an answer.
func shell(t *testing.T, dir string, parts []part, script func(part) string) {
	t.Helper()
	var all strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&all, "part=%s; (cd $part; %s)\n", p.name, script(p))
	}
	out, err := exec.Command("env", "-C", dir, "sh", "-ec", "trap 'echo in $part' EXIT\n"+all.String()).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", dir, err, out)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
