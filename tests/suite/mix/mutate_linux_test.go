package mix

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// errNothing says that there is nothing that an operation could be done to.
var errNothing = errors.New("nothing to do it to")

// mutator changes what is below its working directory.
type mutator struct {
	r    *rand.Rand // of one operation
	did  []string   // what that was done to
	open []*os.File
	maps [][]byte
}

// names are what files and directories are called.
var names = []string{"a", "b", "c", "d", "e", "Foo", "foo", "FOO", "nl\nx", "bad\xff\xfe", strings.Repeat("x", 255), " sp ", `-q'"`, "\u00c4rger", "A\u0308rger", ".hid", "z.tar"}

// operation is one that is drawn as often as its weight says.
type operation struct {
	name   string
	weight int
	do     func(m *mutator) error
}

// mutate makes a command's changes: mutate SEED COUNT LEFT-OUT HOLD. It draws COUNT operations, and each of them what it does by its number, so that
// those in LEFT-OUT ("3,4") can be left out. It says what it does on w. If HOLD is not 0 it says "held" after so many, makes the others, and waits until in ends.
func mutate(args []string, in io.Reader, w io.Writer) error {
	if len(args) != 4 {
		return fmt.Errorf("mutate %q: want a seed, a count, what is left out, and when to wait", args)
	}
	seed, err := strconv.ParseUint(args[0], 10, 64)
	count, err2 := strconv.Atoi(args[1])
	hold, err3 := strconv.Atoi(args[3])
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	out := strings.Split(args[2], ",")
	debug.SetPanicOnFault(true) // of a mapping whose file was cut
	unix.Umask(0o022)
	m := &mutator{}
	for i := range count {
		if !slices.Contains(out, strconv.Itoa(i)) {
			m.r, m.did = rand.New(rand.NewPCG(seed, uint64(i))), nil //nolint:gosec // no secret
			op := m.draw()
			err := m.try(op)
			fmt.Fprintf(w, "%d %s %s %v\n", i, op.name, strings.Join(m.did, " "), err)
		}
		if hold == i+1 {
			fmt.Fprintln(w, "held")
		}
	}
	if hold > 0 {
		_, err = io.Copy(io.Discard, in)
	}
	return err
}

func (m *mutator) draw() operation {
	all := 0
	for _, op := range operations {
		all += op.weight
	}
	n := m.r.IntN(all)
	for _, op := range operations {
		if n -= op.weight; n < 0 {
			return op
		}
	}
	panic("unreachable")
}

func (m *mutator) try(op operation) (err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("panic: %v", x)
		}
	}()
	return op.do(m)
}

// all are all paths below the working directory, and whether they are directories and files, in order.
func all() (paths []string, kinds []fs.FileMode) {
	_ = filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && p != "." {
			paths, kinds = append(paths, p), append(kinds, d.Type())
		}
		return nil
	})
	return paths, kinds
}

// some draws a path that want holds for.
func (m *mutator) some(want func(kind fs.FileMode) bool, also ...string) (string, error) {
	paths, kinds := all()
	for i, p := range paths {
		if want(kinds[i]) {
			also = append(also, p)
		}
	}
	if len(also) == 0 {
		return "", errNothing
	}
	p := also[m.r.IntN(len(also))]
	m.did = append(m.did, strconv.Quote(p))
	return p, nil
}

func (m *mutator) any() (string, error) {
	return m.some(func(fs.FileMode) bool { return true })
}

func (m *mutator) file() (string, error) { return m.some(fs.FileMode.IsRegular) }

// follows draws what is not a symlink, for calls that follow one.
func (m *mutator) follows() (string, error) {
	return m.some(func(k fs.FileMode) bool { return k.IsRegular() || k.IsDir() })
}

func (m *mutator) dir() (string, error) { return m.some(fs.FileMode.IsDir, ".") }

// fresh draws a name, which may be taken, in some directory.
func (m *mutator) fresh() (string, error) {
	d, err := m.dir()
	if err != nil || len(d) > 1500 {
		return "", errors.Join(err, errNothing)
	}
	p := path.Join(d, names[m.r.IntN(len(names))])
	m.did[len(m.did)-1] = strconv.Quote(p)
	return p, nil
}

// data draws content: mostly small, sometimes large.
func (m *mutator) data() []byte {
	n := 0
	switch k := m.r.IntN(10); {
	case k < 5:
		n = 1 + m.r.IntN(200)
	case k < 9:
		n = 1000 + m.r.IntN(39_000)
	default:
		n = 100_000 + m.r.IntN(300_000)
	}
	b := make([]byte, n)
	src := rand.NewChaCha8([32]byte{byte(m.r.IntN(256)), byte(m.r.IntN(256))})
	_, _ = src.Read(b)
	return b
}

// on calls f with what draw draws.
func on(draw func(m *mutator) (string, error), f func(m *mutator, p string) error) func(m *mutator) error {
	return func(m *mutator) error {
		p, err := draw(m)
		if err != nil {
			return err
		}
		return f(m, p)
	}
}

// onTwo calls f with what two draws draw.
func onTwo(first, second func(m *mutator) (string, error), f func(m *mutator, p, q string) error) func(m *mutator) error {
	return on(first, func(m *mutator, p string) error {
		return on(second, func(m *mutator, q string) error { return f(m, p, q) })(m)
	})
}

// with opens a regular file by flags; no other is opened, whatever it has become meanwhile.
func with(p string, flags int, mode uint32, f func(fd int) error) error {
	fd, err := unix.Open(p, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, mode)
	if err != nil {
		return err
	}
	return errors.Join(f(fd), unix.Close(fd))
}

func write(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// handle draws one of the open files.
func (m *mutator) handle(f func(fd int) error) error {
	if len(m.open) == 0 {
		return errNothing
	}
	return f(int(m.open[m.r.IntN(len(m.open))].Fd()))
}

// keep keeps a file open; of more than twenty the oldest is closed.
func (m *mutator) keep(fd int) {
	m.open = append(m.open, os.NewFile(uintptr(fd), "kept"))
	if len(m.open) > 20 {
		_ = m.open[0].Close()
		m.open = m.open[1:]
	}
}

func procFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func rename2(flags uint) func(m *mutator, p, q string) error {
	return func(_ *mutator, p, q string) error { return unix.Renameat2(unix.AT_FDCWD, p, unix.AT_FDCWD, q, flags) }
}

var attributes = []string{"user.a", "user.b", "user.long"}

// swapCase turns the case of letters around.
func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		if l := strings.ToLower(string(r)); l != string(r) {
			return []rune(l)[0]
		}
		return []rune(strings.ToUpper(string(r)))[0]
	}, s)
}

// acl is an access list that gives one user more than the others.
func (m *mutator) acl() []byte {
	perms := func() byte { return byte(m.r.IntN(8)) }
	b := []byte{2, 0, 0, 0}
	for _, e := range []struct {
		tag, id byte
		any     bool
	}{{1, 0, true}, {2, 77, false}, {4, 0, true}, {0x10, 0, true}, {0x20, 0, true}} {
		id := []byte{0xff, 0xff, 0xff, 0xff}
		if !e.any {
			id = []byte{e.id, 0, 0, 0}
		}
		b = append(append(b, e.tag, 0, perms(), 0), id...)
	}
	return b
}

func listen(p string) error {
	if len(p) > 100 {
		return errNothing
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "unix", p)
	if err != nil {
		return err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	return l.Close()
}
