package serve

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"
)

// other is a process that has a session in our place.
type other struct {
	cmd   *exec.Cmd
	lines io.WriteCloser
	taken *os.File
	done  chan struct{}
	err   error // once done is closed
	left  sync.Once
}

// startOther starts this program with some arguments. It reads what is written to the result, and writes to out.
func startOther(args []string, out, stderr *os.File) (*other, error) {
	o := &other{cmd: exec.Command("/proc/self/exe", args...), done: make(chan struct{})}
	o.cmd.Args[0] = os.Args[0]
	o.cmd.Stdout, o.cmd.Stderr = out, stderr
	var err error
	if o.lines, err = o.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	taken, told, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer told.Close()
	o.taken, o.cmd.ExtraFiles = taken, []*os.File{told} // takenFD
	if err := o.cmd.Start(); err != nil {
		taken.Close()
		return nil, err
	}
	go func() {
		defer close(o.done)
		if err := o.cmd.Wait(); err != nil {
			o.err = fmt.Errorf("the process that had the session has ended: %w", err)
		}
	}()
	return o, nil
}

func (o *other) Write(b []byte) (int, error) { return o.lines.Write(b) }

func (o *other) Takes() bool {
	n, err := o.taken.Read(make([]byte, 1))
	return err == nil && n == 1
}

func (o *other) Done() <-chan struct{} { return o.done }

func (o *other) Leave() error {
	o.left.Do(func() { _ = o.lines.Close() }) // it may have ended
	<-o.done
	_ = o.taken.Close() // nothing is written
	return o.err
}

// keepOwn keeps what this process starts from having f.
func keepOwn(f *os.File) { unix.CloseOnExec(int(f.Fd())) }
