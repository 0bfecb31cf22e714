package paths

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/paths"
)

// lab is a directory with a file that is lent.
func lab(t *testing.T) (name string, content []byte, device uint64) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	name, content = filepath.Join(dir, "file"), bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	return name, content, DeviceOf(int(d.Fd()))
}

// taking collects what comes of a read, by either way.
type taking struct {
	Handlers
	data bytes.Buffer
	lent *os.File
	size int64
}

func newTaking(t *testing.T, device uint64) *taking {
	h := &taking{}
	h.Handlers = Handlers{
		Device: device, Data: &h.data, Lent: func(f *os.File) { h.lent = f },
		Ready: func(r Reply) error {
			if r.Info != nil {
				h.size = r.Info.Size
			}
			return nil
		},
		Input: func() io.Reader { return strings.NewReader("by the wire") },
		Fill:  func(f *os.File) error { _, err := f.WriteString("by the host"); return err },
	}
	t.Cleanup(func() {
		if h.lent != nil {
			_ = h.lent.Close()
		}
	})
	return h
}

// TestLent: a large file on the device that is named is lent, to be read and to be filled; any other goes over the wire.
func TestLent(t *testing.T) {
	name, content, device := lab(t)
	c := playing(t, honest)
	read := func(device uint64, offset, length int64) (h *taking) {
		t.Helper()
		h = newTaking(t, device)
		if _, err := c.Do(t.Context(), Request{Op: OpRead, Path: Text(name), Offset: offset, Length: length}, h.Handlers, nil); err != nil {
			t.Fatal(err)
		}
		return h
	}
	h := read(device, 0, 0)
	got, err := io.ReadAll(io.NewSectionReader(h.lent, 0, 1<<30))
	if err != nil || !bytes.Equal(got, content) || h.data.Len() > 0 || h.size != int64(len(content)) {
		t.Errorf("%d of %d bytes, %d by the wire, %v", len(got), h.size, h.data.Len(), err)
	}
	if _, err := h.lent.WriteString("x"); !errors.Is(err, unix.EBADF) {
		t.Errorf("it can be written to: %v", err)
	}
	if h := read(device+1, 10, 20); h.lent != nil || h.data.String() != string(content[10:30]) {
		t.Errorf("on another device: %v, %q", h.lent, h.data.String())
	}
	if h := read(0, int64(len(content))-1, 0); h.lent != nil || h.data.String() != "f" {
		t.Errorf("without a device: %v, %q", h.lent, h.data.String())
	}
	for device, want := range map[uint64]string{device: "by the host", device + 1: "by the wire", 0: "by the wire"} {
		r, err := c.Do(t.Context(), Request{Op: OpWrite, Path: Text(name), Mode: 0o600}, newTaking(t, device).Handlers, nil)
		if b, rerr := os.ReadFile(name); err != nil || rerr != nil || string(b) != want || r.Info == nil || r.Info.Size != int64(len(want)) || !r.Existed {
			t.Errorf("%q, want %q; %+v, %v", b, want, r, err)
		}
	}
	full := errors.New("full")
	failing := newTaking(t, device)
	failing.Fill = func(f *os.File) error { _, _ = f.WriteString("half"); return full }
	_, err = c.Do(t.Context(), Request{Op: OpWrite, Path: Text(name)}, failing.Handlers, nil)
	left, derr := os.ReadDir(filepath.Dir(name))
	if b, rerr := os.ReadFile(name); err != full || string(b) == "half" || rerr != nil || derr != nil || len(left) != 1 {
		t.Errorf("%q, %v, %d names", b, err, len(left))
	}
}

// send sends a frame with descriptors.
func send(t *testing.T, p *program, frame []byte, fds ...int) {
	t.Helper()
	rc, err := p.out.SyscallConn()
	if err == nil {
		cerr := rc.Control(func(fd uintptr) { err = unix.Sendmsg(int(fd), frame, unix.UnixRights(fds...), nil, 0) })
		err = errors.Join(err, cerr)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestHostileLent: a descriptor of anything but a regular file on the folder's device, or one that was not asked for, is thrown away, and nothing is read or written by it.
func TestHostileLent(t *testing.T) {
	name, _, device := lab(t)
	open := func(path string, flags int) int {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	memory, err := unix.MemfdCreate("memory", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(memory)
	good := map[string]int{OpRead: open(name, unix.O_RDONLY), OpWrite: open(name, unix.O_WRONLY)}
	said := map[string][]byte{
		OpRead:  frame(paths.FrameReady, `{"lent":true,"real":"/f","info":{"type":"file","size":7,"mode":420,"uid":0,"gid":0,"mtime_ns":0}}`),
		OpWrite: frame(paths.FrameTake, `{"lent":true}`),
	}
	for _, op := range []string{OpRead, OpWrite} {
		other := map[string]string{OpRead: OpWrite, OpWrite: OpRead}[op]
		for what, c := range map[string]struct {
			fds    []int
			device uint64
		}{
			"none": {nil, device}, "a pipe": {[]int{ends[0]}, device}, "a directory": {[]int{open(filepath.Dir(name), unix.O_RDONLY)}, device}, "a device": {[]int{open("/dev/null", unix.O_RDWR)}, device},
			"memory": {[]int{memory}, device}, "a file of the proc file system": {[]int{open("/proc/self/environ", unix.O_RDONLY)}, device}, "only a path": {[]int{open(name, unix.O_PATH)}, device},
			"the other direction": {[]int{good[other]}, device}, "one that appends": {[]int{open(name, unix.O_RDWR|unix.O_APPEND)}, device}, "not asked for": {[]int{good[op]}, 0}, "on another device": {[]int{good[op]}, device + 1},
			"none before good ones": {[]int{ends[0], good[op]}, device},
		} {
			hostile := func(p *program) {
				in := paths.NewReader(p.in)
				_, _, _ = in.Next()
				if op == OpWrite {
					_, _ = p.out.Write(frame(paths.FrameReady, `{"real":"/f"}`))
					_, _, _ = in.Next()
				}
				if c.fds == nil {
					_, _ = p.out.Write(said[op])
				} else {
					send(t, p, said[op], c.fds...)
				}
				_, _, _ = in.Next()
			}
			h := newTaking(t, c.device)
			if op == OpWrite {
				h.Ready = func(Reply) error { return nil }
			}
			filled := false
			h.Fill = func(*os.File) error { filled = true; return nil }
			if _, err := playing(t, hostile).Do(t.Context(), Request{Op: op, Path: "/f"}, h.Handlers, nil); !errors.Is(err, ErrGuest) || h.lent != nil || filled {
				t.Errorf("%s, %s: %v", op, what, err)
			}
		}
	}
	// What is too much is thrown away, and what is good is taken, with the size that it has.
	generous := func(p *program) {
		_, _, _ = paths.NewReader(p.in).Next()
		send(t, p, said[OpRead], good[OpRead], ends[0])
		send(t, p, frame(paths.FrameAlive, ""), ends[0])
		send(t, p, frame(paths.FrameDone, "{}"), good[OpRead])
	}
	h := newTaking(t, device)
	if _, err := playing(t, generous).Do(t.Context(), Request{Op: OpRead, Path: "/f"}, h.Handlers, nil); err != nil || h.lent == nil || h.size != 1<<20 {
		t.Errorf("%v, %v of %d bytes", err, h.lent, h.size)
	}
}

// TestStopped: a program that says nothing is ended, at whatever point that is; one that says that it works is waited for.
func TestStopped(t *testing.T) {
	for what, frames := range map[string][]byte{"at once": nil, "when it is ready": frame(paths.FrameReady, `{"real":"/f"}`), "in mid-frame": {paths.FrameDone, 0}} {
		for _, op := range []string{OpStat, OpRead, OpWrite, OpRemove} {
			stopped := func(p *program) {
				_, _ = p.out.Write(frames)
				<-p.killed
			}
			c := playing(t, stopped)
			c.Silence = time.Millisecond
			h := newTaking(t, 0)
			h.Ready, h.Input = func(Reply) error { return nil }, func() io.Reader { return bytes.NewReader(make([]byte, 4<<20)) } // more than a pipe takes
			if _, err := c.Do(t.Context(), Request{Op: op, Path: "/f"}, h.Handlers, nil); !errors.Is(err, ErrSilent) || !errors.Is(err, ErrGuest) {
				t.Errorf("%s, %s: %v", op, what, err)
			}
		}
	}
	works := func(p *program) {
		_, _, _ = paths.NewReader(p.in).Next()
		for range 3 {
			_, _ = p.out.Write(frame(paths.FrameAlive, ""))
		}
		_, _ = p.out.Write(frame(paths.FrameDone, "{}"))
	}
	if _, err := playing(t, works).Do(t.Context(), Request{Op: OpRemove, Path: "/f"}, Handlers{}, nil); err != nil {
		t.Error(err)
	}
}
