package script

import (
	"errors"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// Helper makes a process, in new namespaces if flags say so, that runs what write writes. It begins when with says so: it does
// not unless with, which is called meanwhile, writes a byte on the socket. The process
// is gone when Helper returns. Files become its descriptors from [Program] on, two at most.
func Helper(flags uintptr, files []*os.File, write func(w *Writer), with func(pid int, setup control.FDConn) error) error {
	s, err := New()
	if err != nil {
		return err
	}
	defer s.Free()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	ours, theirs, err := control.SocketPair()
	if err != nil {
		return err
	}
	defer theirs.Close() // again does no harm
	setup, err := control.NewFDConn(ours)
	if err != nil {
		return errors.Join(err, ours.Close())
	}
	defer setup.Close()
	defer s.CloseFDs()
	for to := range Given {
		f := null
		if to == Setup {
			f = theirs
		}
		if i := to - Program; i >= 0 && i < len(files) {
			f = files[i]
		}
		if err := s.GiveFD(to, f); err != nil {
			return err
		}
	}
	if err := s.Block(); err != nil {
		return err
	}
	w := NewWriter(s)
	write(w)
	w.Call("the end", unix.SYS_EXIT_GROUP, 0)
	if w.Err != nil {
		return w.Err
	}
	runtime.LockOSThread() // its death would be the process's
	defer runtime.UnlockOSThread()
	pid, errno := Fork(flags, s)
	if errno != 0 {
		return os.NewSyscallError("clone", errno)
	}
	_ = theirs.Close() // so that with sees the process's end
	s.CloseFDs()
	err = with(pid, setup)
	_ = unix.Kill(pid, unix.SIGKILL)
	var status syscall.WaitStatus
	for {
		if _, werr := syscall.Wait4(pid, &status, 0, nil); werr != syscall.EINTR {
			break
		}
	}
	if failed := w.Failure(); failed != nil {
		return failed
	}
	return err
}

// Run is [Helper] for a script that is to run to its end.
func Run(flags uintptr, files []*os.File, write func(w *Writer)) error {
	return Helper(flags, files, write, func(_ int, setup control.FDConn) error {
		if _, err := setup.Write([]byte{0}); err != nil {
			return err
		}
		for { // until its end of the socket is closed, which its death does
			if n, err := setup.Read(make([]byte, 1)); n == 0 || err != nil {
				return nil
			}
		}
	})
}
