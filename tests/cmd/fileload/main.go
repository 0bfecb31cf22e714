//go:build linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fileload:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: fileload append|reopen|open|look|connect FILE COUNT, or fileload scatter|scatter-sync FILE COUNT BYTES")

func run(args []string) error {
	if len(args) < 3 {
		return errUsage
	}
	count, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	switch what, file := args[0], args[1]; {
	case what == "append" && len(args) == 3:
		return appendTo(file, count)
	case what == "reopen" && len(args) == 3:
		return repeat(count, func() error { return appendTo(file, 1) })
	case what == "open" && len(args) == 3:
		return repeat(count, func() error { return with(file, 0, func(int) error { return nil }) })
	case what == "look" && len(args) == 3:
		return repeat(count, func() error { return look(file) })
	case what == "connect" && len(args) == 3:
		return connect(file, count)
	case (what == "scatter" || what == "scatter-sync") && len(args) == 4:
		size, err := strconv.ParseInt(args[3], 10, 64)
		if err != nil || size < pageBytes {
			return errors.Join(errUsage, err)
		}
		return scatter(file, count, size, what == "scatter-sync")
	}
	return errUsage
}

func repeat(count int, f func() error) error {
	for range count {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// with opens the file for writing. The calls are the bare ones: package os would add
// its own (fcntl, epoll_ctl).
func with(file string, flags int, f func(fd int) error) error {
	fd, err := syscall.Open(file, syscall.O_WRONLY|syscall.O_CREAT|flags, 0o644)
	if err != nil {
		return &os.PathError{Op: "open", Path: file, Err: err}
	}
	return errors.Join(f(fd), syscall.Close(fd))
}

func look(file string) error {
	fd, err := syscall.Open(file, syscall.O_RDONLY, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: file, Err: err}
	}
	return syscall.Close(fd)
}

// connect meets its own socket; who accepts is the same thread.
func connect(file string, count int) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	address := &syscall.SockaddrUnix{Name: file}
	server, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer syscall.Close(server)
	if err := errors.Join(syscall.Bind(server, address), syscall.Listen(server, 1)); err != nil {
		return err
	}
	return repeat(count, func() error {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			return os.NewSyscallError("socket", err)
		}
		if err := syscall.Connect(fd, address); err != nil {
			return errors.Join(os.NewSyscallError("connect", err), syscall.Close(fd))
		}
		met, _, err := syscall.Accept(server)
		if err != nil {
			return errors.Join(os.NewSyscallError("accept", err), syscall.Close(fd))
		}
		return errors.Join(syscall.Close(met), syscall.Close(fd))
	})
}

func appendTo(file string, count int) error {
	line := []byte("fifteen letters\n")
	return with(file, syscall.O_APPEND, func(fd int) error {
		return repeat(count, func() error {
			n, err := syscall.Write(fd, line)
			return written(n, err, len(line))
		})
	})
}

const pageBytes = 4096

func scatter(file string, count int, size int64, sync bool) error {
	page := make([]byte, pageBytes)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range page {
		page[i] = byte(r.Uint32())
	}
	return with(file, 0, func(fd int) error {
		err := repeat(count, func() error {
			n, err := syscall.Pwrite(fd, page, r.Int64N(size/pageBytes)*pageBytes)
			return written(n, err, len(page))
		})
		if err == nil && sync {
			err = syscall.Fsync(fd)
		}
		return err
	})
}

// written checks that a write has written as much as it should.
func written(n int, err error, want int) error {
	if err == nil && n != want {
		err = fmt.Errorf("%d of %d bytes written", n, want)
	}
	return err
}
