package socket

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"
)

// On Windows a session is reached by a named pipe. The file under the socket's name says that there is one; the pipe's own name is made
// of the file's path.

// longestPath is that of a file: the pipe's name does not get longer with it.
const longestPath = 32000

// Conn is a connection to a session.
type Conn struct{ net.Conn }

// CloseRead has reads end.
func (c *Conn) CloseRead() error { return c.SetReadDeadline(time.Unix(1, 0)) }

// CloseWrite has the other side read to the end.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Listener is where a session is reached.
type Listener struct {
	net.Listener
	first windows.Handle // see takeFirst
	once  sync.Once      // closes it
}

// Close ends listening.
func (l *Listener) Close() error {
	l.once.Do(func() {
		if l.first != windows.InvalidHandle {
			_ = windows.CloseHandle(l.first)
		}
	})
	return l.Listener.Close()
}

// takeFirst connects to the first instance of a pipe, by which the library keeps the name and which it never serves, where that can be done: Windows lets nobody, and wine the first
// client, who would wait for good. Nobody accepts clients yet.
func takeFirst(name string) windows.Handle {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return windows.InvalidHandle
	}
	h, err := windows.CreateFile(path, windows.GENERIC_READ|windows.GENERIC_WRITE, 0, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		return windows.InvalidHandle
	}
	return h
}

// AcceptUnix waits for a client.
func (l *Listener) AcceptUnix() (*Conn, error) {
	c, err := l.Accept()
	if errors.Is(err, winio.ErrPipeListenerClosed) {
		err = net.ErrClosed
	}
	if err != nil {
		return nil, err
	}
	return &Conn{c}, nil
}

// pipeName is the name of the pipe for a path. Case does not count in it, as in the path.
func pipeName(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	sum := sha256.Sum256([]byte(strings.ToLower(path)))
	return `\\.\pipe\sandbox-` + hex.EncodeToString(sum[:16])
}

// IsSocket tells whether what is at a path can be what [Listen] has left there.
func IsSocket(info os.FileInfo) bool { return info.Mode().IsRegular() && info.Size() == 0 }

// Listen makes a pipe that only this user can open, and the file at path, in place of what is there, which the caller has looked at.
// Closing the listener leaves the file. Somebody who has taken the pipe's name is an error.
func Listen(path string) (*Listener, error) {
	user, err := ownSID()
	if err != nil {
		return nil, err
	}
	l, err := winio.ListenPipe(pipeName(path), &winio.PipeConfig{
		SecurityDescriptor: "D:P(A;;GA;;;" + user.String() + ")(A;;GA;;;SY)", MessageMode: true, // with which one side can be closed
	})
	if err != nil {
		return nil, err
	}
	listener := &Listener{Listener: l, first: takeFirst(pipeName(path))}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// Dial connects. Where nobody listens, the error wraps [syscall.ECONNREFUSED].
func Dial(ctx context.Context, path string) (*Conn, error) {
	if _, err := os.Lstat(path); err != nil {
		return nil, err
	}
	c, err := winio.DialPipeContext(ctx, pipeName(path))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", path, syscall.ECONNREFUSED)
	}
	if err != nil {
		return nil, err
	}
	return &Conn{c}, nil
}

// Credentials returns this user: no other can open the pipe.
func Credentials(*Conn) (uid, pid int, err error) { return os.Getuid(), 0, nil }

// Trusted returns an error if who listens is another user, who can make a pipe of any name before a session does.
func Trusted(c *Conn) error {
	file, ok := c.Conn.(interface{ Fd() uintptr })
	if !ok {
		return ErrStranger
	}
	var pid uint32
	if err := windows.GetNamedPipeServerProcessId(windows.Handle(file.Fd()), &pid); err != nil {
		return fmt.Errorf("%w: %w", ErrStranger, err)
	}
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return fmt.Errorf("%w: process %d: %w", ErrStranger, pid, err)
	}
	defer func() { _ = windows.CloseHandle(process) }()
	var token windows.Token
	if err := windows.OpenProcessToken(process, windows.TOKEN_QUERY, &token); err != nil {
		return fmt.Errorf("%w: process %d: %w", ErrStranger, pid, err)
	}
	defer token.Close()
	theirs, err := token.GetTokenUser()
	if err != nil {
		return err
	}
	ours, err := ownSID()
	if err != nil {
		return err
	}
	if !windows.EqualSid(theirs.User.Sid, ours) {
		return fmt.Errorf("%w: process %d is of %s", ErrStranger, pid, theirs.User.Sid)
	}
	return nil
}

// ownSID names this user.
func ownSID() (*windows.SID, error) {
	u, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, err
	}
	return u.User.Sid, nil
}
