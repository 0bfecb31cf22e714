package console

import (
	"errors"
	"os"
	"time"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"golang.org/x/sys/windows"
)

// sizeTick is how often the size of the window is looked at. No signal says that it has changed, and the event that there is tells of the buffer, which
// in the old console is larger than the window and stays as it is: one call, four times a second, is right in both.
const sizeTick = 250 * time.Millisecond

// keyboard is the user's console, which one goroutine reads. It reads events, as these can be waited for, and a read of text cannot be ended.
type keyboard struct {
	console, wake windows.Handle
	keys          typedKeys
	rest          []byte // not handed out yet
}

var _ keys = (*keyboard)(nil)

func keysOf(console *os.File) (k keys, done func(), err error) {
	b, err := newKeyboard(console)
	if err != nil {
		return nil, nil, err
	}
	return b, b.close, nil
}

// newKeyboard returns one that is closed when it is not needed any more; console stays open.
func newKeyboard(console *os.File) (*keyboard, error) {
	wake, err := windows.CreateEvent(nil, 0, 0, nil)
	if err != nil {
		return nil, os.NewSyscallError("CreateEvent", err)
	}
	return &keyboard{console: windows.Handle(console.Fd()), wake: wake}, nil
}

func (k *keyboard) close() { _ = windows.CloseHandle(k.wake) }

// awake ends a wait, or the next one. It may be called while another goroutine waits.
func (k *keyboard) awake() { _ = windows.SetEvent(k.wake) }

// wait waits for awake or, if keys is set, for something to read, which it reports; for d at most, unless that is negative.
func (k *keyboard) wait(d time.Duration, keys bool) bool {
	if keys && len(k.rest) > 0 {
		return true
	}
	most := uint32(windows.INFINITE)
	if d >= 0 {
		most = uint32(d.Milliseconds())
	}
	objects := []windows.Handle{k.wake}
	if keys {
		objects = append(objects, k.console)
	}
	which, err := windows.WaitForMultipleObjects(objects, false, most)
	return err == nil && which == windows.WAIT_OBJECT_0+1
}

// read reads what is there after a wait; events that are no keys are nothing. An error says that no more will come.
func (k *keyboard) read(buf []byte) (n int, err error) {
	if len(k.rest) == 0 {
		var events [128]inputEvent
		var got uint32
		read := windows.NewLazySystemDLL("kernel32.dll").NewProc("ReadConsoleInputW")
		ok, _, callErr := read.Call(uintptr(k.console), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(unsafe.Pointer(&got)))
		if ok == 0 {
			return 0, errors.Join(errNoKeys, os.NewSyscallError("ReadConsoleInput", callErr))
		}
		k.rest = k.keys.text(k.rest, events[:got])
	}
	n = copy(buf, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}

func (k *keyboard) next() (byte, bool) {
	if !k.wait(promptTick, true) {
		return 0, false
	}
	var c [1]byte
	n, err := k.read(c[:])
	if err != nil {
		return endOfFile, true
	}
	return c[0], n == 1
}

func (k *keyboard) flush() {
	k.rest = nil
	_ = windows.FlushConsoleInputBuffer(k.console) // the console is there
}

// inputEvent is Windows' INPUT_RECORD with a KEY_EVENT_RECORD.
type inputEvent struct {
	kind              uint16
	_                 uint16
	down              int32
	repeat, key, scan uint16
	char              uint16 // a unit of UTF-16
	control           uint32
}

// Numbers of Windows'.
const (
	keyEvent = 1
	keyAlt   = 0x12 // what was typed as a number with it held comes with its release
)

// typedKeys makes text of keys. It keeps the first half of a character that comes as two.
type typedKeys struct{ high rune }

func (t *typedKeys) text(to []byte, events []inputEvent) []byte {
	for _, e := range events {
		if e.kind != keyEvent || e.char == 0 || e.down == 0 && e.key != keyAlt {
			continue
		}
		for range max(e.repeat, 1) {
			to = t.unit(to, rune(e.char))
		}
	}
	return to
}

func (t *typedKeys) unit(to []byte, r rune) []byte {
	high := t.high
	t.high = 0
	if high != 0 {
		if whole := utf16.DecodeRune(high, r); whole != utf8.RuneError {
			return utf8.AppendRune(to, whole)
		}
		to = utf8.AppendRune(to, utf8.RuneError)
	}
	if utf16.IsSurrogate(r) && r < 0xdc00 {
		t.high = r
		return to
	}
	return utf8.AppendRune(to, r) // half a character becomes one that says so
}
