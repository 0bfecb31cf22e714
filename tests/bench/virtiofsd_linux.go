package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// virtiofsdPath is where Debian 12 has QEMU 7.2's own virtiofsd, in C.
const virtiofsdPath = "/usr/lib/qemu/virtiofsd"

// startVirtiofsd serves dir to the front-end at the other end of file, with the
// caches that ours allows: everything, for a second, extended attributes too. The
// rest is as by default, which is what ours does: READDIRPLUS, no
// write-back cache, no locks of the host's, setuid bits cleared by the server, one
// thread that takes and performs the requests of a queue. Its sandbox is made once.
func startVirtiofsd(ctx context.Context, l *lab, dir string, file *os.File) (pid int, stop func() error, err error) {
	defer file.Close()
	if _, err := os.Stat(virtiofsdPath); err != nil {
		return 0, nil, errors.New("no " + virtiofsdPath + ": it is part of QEMU 7.2, Debian 12's qemu-system-common")
	}
	socket := filepath.Join(l.scratch, "virtiofsd")
	cmd := exec.CommandContext(ctx, virtiofsdPath, "--socket-path="+socket,
		"-o", "source="+dir, "-o", "cache=always", "-o", "timeout=1", "-o", "xattr", "-o", "sandbox=chroot")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	theirs, err := dialSoon(ctx, socket, ended)
	if err != nil {
		_ = cmd.Process.Kill()
		return 0, nil, fmt.Errorf("virtiofsd: %w", err)
	}
	ours, err := net.FileConn(file)
	if err != nil {
		return 0, nil, errors.Join(err, theirs.Close(), cmd.Process.Kill())
	}
	go forward(theirs, ours.(*net.UnixConn))
	go forward(ours.(*net.UnixConn), theirs)
	return cmd.Process.Pid, func() error {
		_ = cmd.Process.Kill() // it may have ended with its front-end
		var status *exec.ExitError
		if err := <-ended; !errors.As(err, &status) {
			return err
		}
		return nil
	}, nil
}

func dialSoon(ctx context.Context, socket string, ended <-chan error) (*net.UnixConn, error) {
	for {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
		if err == nil {
			return conn, nil
		}
		select {
		case err := <-ended:
			return nil, fmt.Errorf("ended: %w", err)
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// forward carries vhost-user messages and the descriptors in them, until one side
// ends. They are few: data goes by shared memory. Descriptors belong to a header,
// so each is read by itself.
func forward(to, from *net.UnixConn) {
	defer to.Close()
	defer from.Close()
	const headerBytes = 12 // request, flags, size
	buf, oob := make([]byte, 64<<10), make([]byte, 4<<10)
	for {
		n, oobn, _, _, err := from.ReadMsgUnix(buf[:headerBytes], oob)
		if err == nil {
			_, err = io.ReadFull(from, buf[n:headerBytes])
		}
		size := int(binary.NativeEndian.Uint32(buf[8:]))
		if err != nil || size > len(buf)-headerBytes {
			return
		}
		if _, err = io.ReadFull(from, buf[headerBytes:headerBytes+size]); err == nil {
			_, _, err = to.WriteMsgUnix(buf[:headerBytes+size], oob[:oobn], nil)
		}
		closeAll(oob[:oobn])
		if err != nil {
			return
		}
	}
}

// closeAll closes the descriptors of a control message.
func closeAll(oob []byte) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return
	}
	for _, m := range messages {
		fds, _ := unix.ParseUnixRights(&m)
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}
}
