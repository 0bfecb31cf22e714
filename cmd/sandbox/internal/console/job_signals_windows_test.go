package console

import (
	"log/slog"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
)

// tell has a handler hear of an event as Windows does it: on a thread that Go did not make. It sends what the handler returns, if it does.
func tell(t *testing.T, handler uintptr, event uint32) (said <-chan uint32) {
	t.Helper()
	kernel := windows.NewLazySystemDLL("kernel32.dll")
	thread, _, err := kernel.NewProc("CreateThread").Call(0, 0, handler, uintptr(event), 0, 0)
	if thread == 0 {
		t.Fatal(err)
	}
	out := make(chan uint32, 1)
	go func() {
		var code uint32
		_, _ = windows.WaitForSingleObject(windows.Handle(thread), windows.INFINITE) // the code below says if it has not ended
		_, _, _ = kernel.NewProc("GetExitCodeThread").Call(thread, uintptr(unsafe.Pointer(&code)))
		out <- code
	}()
	return out
}

// heeding is a job on some files whose command takes signals, with what Windows would call for it.
func heeding(t *testing.T, in, out *os.File) (j *Job, p *signalled, handler uintptr, cancelled <-chan struct{}) {
	t.Helper()
	j, p = NewJob(in, out, out, slog.New(slog.DiscardHandler), nil), newSignalled()
	cancels := make(chan struct{}, 8)
	handled := make(chan struct{})
	go func() {
		defer close(handled)
		j.HandleSignals(func() { cancels <- struct{}{} })
	}()
	t.Cleanup(func() {
		j.Close()
		<-handled
	})
	return j, p, (&consoleEvents{to: j.signals}).handler(), cancels
}

// TestConsoleEvents: Ctrl-C is INT for the command, Ctrl-Break is TERM, and the second one cancels as on Linux; so does the end of the console, whose
// handler does not return, as Windows would end the process then. Nobody hears any more when the job is closed.
func TestConsoleEvents(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	j, p, handler, cancelled := heeding(t, null, null)
	j.Started(1, p)
	for _, e := range []struct {
		event uint32
		sig   syscall.Signal // that the command gets
	}{
		{windows.CTRL_C_EVENT, syscall.SIGINT}, {windows.CTRL_C_EVENT, syscall.SIGINT}, {windows.CTRL_BREAK_EVENT, syscall.SIGTERM}, {windows.CTRL_BREAK_EVENT, 0},
	} {
		if said := <-tell(t, handler, e.event); said != 1 {
			t.Errorf("event %d: the handler returned %d", e.event, said)
		}
		if e.sig != 0 {
			p.gets(t, e.sig)
		} else {
			<-cancelled
		}
	}
	for _, event := range []uint32{windows.CTRL_CLOSE_EVENT, windows.CTRL_LOGOFF_EVENT, windows.CTRL_SHUTDOWN_EVENT} {
		said := tell(t, handler, event)
		<-cancelled
		select {
		case code := <-said:
			t.Errorf("event %d: the handler returned %d", event, code)
		default:
		}
	}
	if said := <-tell(t, handler, 3); said != 0 {
		t.Errorf("an event that nobody knows: %d", said)
	}
	if len(p.got) != 0 {
		t.Error("the command got signals that are not its own")
	}
}

// TestConsoleEventsAfterTheJob: who has ended hears nothing, and the system does what it does by default.
func TestConsoleEventsAfterTheJob(t *testing.T) {
	var nobody consoleEvents
	if said := <-tell(t, nobody.handler(), windows.CTRL_CLOSE_EVENT); said != 0 {
		t.Errorf("the handler returned %d", said)
	}
}

// TestConsoleCtrlC: the system calls the handler of a job. Wine, where the tests of consoles run, has no other event: its Ctrl-Break ends a thread of
// each process of the console.
func TestConsoleCtrlC(t *testing.T) {
	newScreen(t)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	j, p, _, _ := heeding(t, null, null)
	j.Started(1, p)
	if err := windows.GenerateConsoleCtrlEvent(windows.CTRL_C_EVENT, 0); err != nil {
		t.Fatal(err)
	}
	p.gets(t, syscall.SIGINT)
}

// TestConsoleBreak: a command that has the console does not get Ctrl-Break, which no mode makes a key: it is ended, and the console has its modes again.
func TestConsoleBreak(t *testing.T) {
	s := newScreen(t)
	before := s.modes()
	j, _, handler, cancelled := heeding(t, s.in, s.out)
	if tty := j.TTY(); tty == nil || tty.Term == "" {
		t.Fatalf("the command's terminal: %+v", tty)
	}
	p, inner := newFar(t)
	j.Started(1, p)
	if s.modes() == before {
		t.Error("the console is not raw")
	}
	if said := <-tell(t, handler, windows.CTRL_BREAK_EVENT); said != 1 {
		t.Errorf("the handler returned %d", said)
	}
	<-cancelled
	_ = inner.Close()
	j.LeaveTerminal()
	if m := s.modes(); m != before {
		t.Errorf("modes afterwards %x, before %x", m, before)
	}
}
