package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/codeagent/sandbox/actors/frontend/ui"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/launch"
)

// PageBeside are the options of [ServePage].
type PageBeside struct {
	Port    int // of 127.0.0.1; 0: a free one
	Launch  *launch.Launcher
	Logger  *slog.Logger
	Version string
}

// PageServer is a page that is served.
type PageServer struct {
	// File has the page's address. Only this user can read it.
	File string

	stop context.CancelFunc
	done chan struct{}
	err  error
}

const (
	filePrefix, fileSuffix = "ui-", ".url"
	unfinished             = ".new"
)

// ServePage serves the page beside something else, until ctx ends or the page is closed. Its address, whose token is a
// secret, is written to a file in the runtime directory and nowhere else.
func ServePage(ctx context.Context, o PageBeside) (*PageServer, error) {
	l, err := listen(o.Port, "--ui-port")
	if err != nil {
		return nil, err
	}
	dir, err := o.Launch.RuntimeDir()
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	forget(dir)
	from := *o.Launch
	from.Stderr = notes{o.Logger} // of this process: it may have log lines only
	s := ui.New(ui.Options{Sources: sources{&from}, Version: o.Version, User: username(), Logger: o.Logger})
	p := &PageServer{File: filepath.Join(dir, filePrefix+strconv.Itoa(os.Getpid())+fileSuffix), done: make(chan struct{})}
	if err := writeAddress(p.File, s.Address(l)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	ctx, p.stop = context.WithCancel(ctx)
	go func() {
		defer close(p.done)
		defer o.Launch.Attend()()
		p.err = s.Serve(ctx, l)
	}()
	return p, nil
}

// Close removes the file and ends the page.
func (p *PageServer) Close() error {
	err := os.Remove(p.File)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	p.stop()
	<-p.done
	return errors.Join(err, p.err)
}

// listen listens at a port of 127.0.0.1.
func listen(port int, flag string) (net.Listener, error) {
	if port < 0 || port > 65535 {
		return nil, console.Usagef("%s %d: it has to be between 0 and 65535", flag, port)
	}
	l, err := ui.Listen(port, flag)
	if err != nil {
		return nil, fmt.Errorf("%w; leave out %s to take a free one", err, flag)
	}
	return l, nil
}

func username() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

// writeAddress makes the file, whole or not at all, and readable for this user only from its beginning on.
func writeAddress(file, address string) error {
	_ = os.Remove(file + unfinished) // of a process that had this number before
	f, err := os.OpenFile(file+unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("the page's address: %w", err)
	}
	_, err = f.WriteString(address + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(file+unfinished, file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("the page's address: %w", err), os.Remove(file+unfinished))
	}
	return nil
}

// forget removes the files of processes that were killed. What they say is of no use any more.
func forget(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), filePrefix)
		number, isFile := strings.CutSuffix(strings.TrimSuffix(rest, unfinished), fileSuffix)
		pid, err := strconv.Atoi(number)
		if ok && isFile && err == nil && pid > 0 && gone(pid) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// gone reports whether there is no such process.
func gone(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return true
	}
	defer func() { _ = p.Release() }()
	return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// notes logs what is said to people.
type notes struct{ log *slog.Logger }

func (n notes) Write(b []byte) (int, error) {
	for line := range strings.Lines(console.Clip(string(b), 4096)) {
		if line = strings.TrimSpace(line); line != "" {
			n.log.Info(line, "component", "ui")
		}
	}
	return len(b), nil
}
