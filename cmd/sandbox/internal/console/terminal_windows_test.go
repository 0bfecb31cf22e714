package console

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/codeagent/sandbox/hypervisor"
)

// screen is the console that the test was started on: the test is its keyboard.
type screen struct {
	t       *testing.T
	in, out *os.File
}

func newScreen(t *testing.T) *screen {
	t.Helper()
	p, err := OpenPrompt()
	if err != nil {
		t.Skip("no console: it is started without one; tests/suite/wine has one")
	}
	t.Cleanup(func() { _ = p.Close() })
	return &screen{t, p.in, p.out}
}

// modes are those of the keyboard and the screen.
func (s *screen) modes() (m [2]uint32) {
	s.t.Helper()
	for i, f := range []*os.File{s.in, s.out} {
		if err := windows.GetConsoleMode(windows.Handle(f.Fd()), &m[i]); err != nil {
			s.t.Fatal(err)
		}
	}
	return m
}

// press presses and releases a key for each unit of UTF-16.
func (s *screen) press(text string) {
	s.t.Helper()
	var events []inputEvent
	for _, c := range utf16.Encode([]rune(text)) {
		events = append(events, inputEvent{kind: keyEvent, down: 1, repeat: 1, char: c}, inputEvent{kind: keyEvent, repeat: 1, char: c})
	}
	var n uint32
	write := windows.NewLazySystemDLL("kernel32.dll").NewProc("WriteConsoleInputW")
	if ok, _, err := write.Call(s.in.Fd(), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(unsafe.Pointer(&n))); ok == 0 || int(n) != len(events) {
		s.t.Fatalf("%d of %d: %v", n, len(events), err)
	}
}

// far is a command of which the test has the terminal.
type far struct {
	hypervisor.Process
	terminal *os.File
	sizes    chan [2]uint16
}

func (f *far) Terminal() *os.File { return f.terminal }
func (f *far) Resize(rows, cols uint16) error {
	f.sizes <- [2]uint16{rows, cols}
	return nil
}
func (*far) Wait(context.Context) (hypervisor.ExitStatus, error) { return hypervisor.ExitStatus{}, nil }

// newFar returns one, and the command's own end.
func newFar(t *testing.T) (*far, *os.File) {
	t.Helper()
	name, err := windows.UTF16PtrFromString(`\\.\pipe\sandbox-test-` + rand.Text())
	if err != nil {
		t.Fatal(err)
	}
	a, err := windows.CreateNamedPipe(name, windows.PIPE_ACCESS_DUPLEX|windows.FILE_FLAG_OVERLAPPED, windows.PIPE_TYPE_BYTE, 1, 4096, 4096, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE, 0, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_OVERLAPPED, 0)
	if err != nil {
		t.Fatal(err)
	}
	inner := os.NewFile(uintptr(b), "inner")
	t.Cleanup(func() { _ = inner.Close() })
	return &far{terminal: os.NewFile(uintptr(a), "outer"), sizes: make(chan [2]uint16, 64)}, inner
}

// expect reads what the command gets, to the text.
func expect(t *testing.T, from *os.File, text string) {
	t.Helper()
	got := make([]byte, len(text))
	if n, err := io.ReadFull(from, got); err != nil || string(got) != text {
		t.Fatalf("the command got %q, %v; want %q", got[:n], err, text)
	}
}

// TestConsoleIsRawInsideAndRestored: the command gets each key, also those that are signals else, a question on the screen gets those after it, and
// the console has its modes again.
func TestConsoleIsRawInsideAndRestored(t *testing.T) {
	s := newScreen(t)
	before := s.modes()
	relay := NewRelay(s.in, s.out, s.out)
	if relay == nil {
		t.Fatal("no terminal")
	}
	p, inner := newFar(t)
	if err := relay.Start(p); err != nil {
		t.Fatal(err)
	}
	if m := s.modes(); m != [2]uint32{rawInput(before[0]), rawOutput(before[1])} {
		t.Errorf("modes %x, before %x", m, before)
	}
	rows, cols := relay.Size()
	if size := <-p.sizes; size != [2]uint16{rows, cols} {
		t.Errorf("the command has %d, the console %d %d", size, rows, cols)
	}
	s.press("a\x03\x1a\x1b[Aé😀")
	expect(t, inner, "a\x03\x1a\x1b[Aé😀")

	answers := make(chan PromptAnswer, 1)
	go func() {
		a, _ := relay.Ask(PromptQuestion{Text: "delete?", Deadline: time.Now().Add(time.Hour)}, nil)
		answers <- a
	}()
	for asked := false; !asked; { // what is typed before the question is dropped
		select {
		case a := <-answers:
			if !a.Allow {
				t.Error("refused")
			}
			asked = true
		case <-time.After(100 * time.Millisecond):
			s.press("\x7fy\r")
		}
	}
	for range 2 { // the command draws its screen again
		<-p.sizes
	}
	if _, err := io.WriteString(inner, strings.Repeat("shown\r\n", 100)); err != nil {
		t.Fatal(err)
	}
	_ = inner.Close()
	relay.Stop()
	if m := s.modes(); m != before {
		t.Errorf("modes afterwards %x, before %x", m, before)
	}
}

// TestConsoleOfAnotherSize: the command hears of it without a signal.
func TestConsoleOfAnotherSize(t *testing.T) {
	s := newScreen(t)
	relay := NewRelay(s.in, s.out, s.out)
	p, _ := newFar(t)
	if err := relay.Start(p); err != nil {
		t.Fatal(err)
	}
	defer relay.Stop()
	was := <-p.sizes
	kernel := windows.NewLazySystemDLL("kernel32.dll")
	window := [4]int16{0, 0, int16(was[1]) - 11, int16(was[0]) - 6} // left, top, right, bottom
	if ok, _, err := kernel.NewProc("SetConsoleWindowInfo").Call(s.out.Fd(), 1, uintptr(unsafe.Pointer(&window))); ok == 0 {
		t.Fatal(err)
	}
	if size := <-p.sizes; size != [2]uint16{was[0] - 5, was[1] - 10} {
		t.Errorf("%d, was %d", size, was)
	}
}

// TestTypedKeys: a character of two units comes whole, what is held down comes again, and a release is nothing but the end of a number.
func TestTypedKeys(t *testing.T) {
	const high, low = 0xd83d, 0xde00
	var k typedKeys
	text := k.text(nil, []inputEvent{
		{kind: keyEvent, down: 1, repeat: 3, char: 'x'}, {kind: keyEvent, repeat: 1, char: 'x'},
		{kind: 4}, {kind: 0x10, down: 1, repeat: 1, char: 'f'}, // a size, the focus
		{kind: keyEvent, down: 1, repeat: 1, key: 0x10}, // shift
		{kind: keyEvent, repeat: 1, key: keyAlt, char: 'ß'}, {kind: keyEvent, down: 1, repeat: 1, char: high},
	})
	text = k.text(text, []inputEvent{
		{kind: keyEvent, repeat: 1, char: high}, {kind: keyEvent, down: 1, repeat: 1, char: low},
		{kind: keyEvent, down: 1, repeat: 1, char: low}, {kind: keyEvent, down: 1, repeat: 1, char: high}, {kind: keyEvent, down: 1, repeat: 1, char: 'y'},
	})
	if want := "xxxß😀\ufffd\ufffdy"; string(text) != want {
		t.Errorf("%q, want %q", text, want)
	}
}
