package escape

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attack is the program inside. Its status is 0 if it got what it wanted.
func attack(name string, args []string) int {
	err := fmt.Errorf("unknown attack %q", name)
	if f := attacks[name]; f != nil {
		err = f(args)
	}
	if err != nil {
		fmt.Println(name+":", err)
		return 1
	}
	return 0
}

var attacks = map[string]func(args []string) error{
	"unlink":     unlinkOnThread,
	"swap":       swap,
	"reopen":     reopen,
	"crowd":      crowd,
	"attributes": setAttributes,
	"together":   together,
	"protected":  writeProtected,
	"shmget":     object(unix.SYS_SHMGET, 0, 0),
	"shmat":      attachSegment,
	"shmctl":     controlSegment,
	"msgget":     object(unix.SYS_MSGGET, 0),
	"msgsnd":     sendMessage,
	"msgrcv":     receiveMessage,
	"semget":     object(unix.SYS_SEMGET, 0, 0),
	"semop":      raiseSemaphore,
	"mqopen":     openPOSIXQueue,
	"pread":      readDescriptor,
	"connect": func(a []string) error {
		c, err := net.Dial("unix", a[0])
		if err == nil {
			err = c.Close()
		}
		return err
	},
	"truncate": func(a []string) error { return unix.Truncate(a[0], 0) },
	"cut":      cut(unix.O_RDONLY),
	"cut3":     cut(unix.O_ACCMODE),
	"cut2":     func(a []string) error { return cut2(a[0]) },
	"cutrace":  cutWhileSwapped,
	"link":     func(a []string) error { return unix.Linkat(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], 0) },
	// reach connects the socket that is standard input.
	"reach": func(a []string) error { return unix.Connect(0, &unix.SockaddrUnix{Name: a[0]}) },
	"dial": func(a []string) error {
		c, err := net.Dial("tcp", a[0])
		if err == nil {
			err = c.Close()
		}
		return err
	},
	"setuid": setuid,
	"setns": func(a []string) error {
		fd, err := unix.Open(a[0], unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return unix.Setns(fd, 0)
	},
	"ptrace":  func(a []string) error { return unix.PtraceAttach(number(a[0])) },
	"unshare": func(a []string) error { return unix.Unshare(number(a[0])) },
	"socket": func(a []string) error {
		_, err := unix.Socket(number(a[0]), number(a[1]), 0)
		return err
	},
	"vmread": func(a []string) error {
		b := make([]byte, 8)
		_, err := unix.ProcessVMReadv(number(a[0]), []unix.Iovec{{Base: &b[0], Len: 8}}, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
		return err
	},
	"getfd": func(a []string) error {
		fd, err := unix.PidfdOpen(number(a[0]), 0)
		if err != nil {
			return err
		}
		_, err = unix.PidfdGetfd(fd, 0, 0)
		return err
	},
	"handle": func(a []string) error {
		h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, a[0], 0)
		if err != nil {
			return err
		}
		dir, err := unix.Open(a[0], unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		_, err = unix.OpenByHandleAt(dir, h, unix.O_RDONLY)
		return err
	},
	"mountsetattr": func(a []string) error {
		return unix.MountSetattr(unix.AT_FDCWD, a[0], unix.AT_RECURSIVE, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
	},
	"opentree": func(a []string) error { // a copy of a tree without what is mounted in it
		tree, err := unix.OpenTree(unix.AT_FDCWD, a[0], unix.OPEN_TREE_CLONE)
		if err != nil {
			return err
		}
		fd, err := unix.Openat(tree, a[1], unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		_, err = io.Copy(os.Stdout, os.NewFile(uintptr(fd), a[1]))
		return err
	},
	"keyctl": func([]string) error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, true); return err },
	"tiocsti": func([]string) error {
		b := byte('x')
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&b)))
		if errno == unix.EPERM {
			return errno
		}
		return nil // it got past the filter
	},
	"ioctl": func(a []string) error { // makes requests to a file; succeeds if one gets past the filter
		fd, err := unix.Open(a[0], unix.O_RDONLY|unix.O_NOCTTY, 0)
		if err != nil {
			return err
		}
		block := make([]byte, 4096)
		for _, request := range a[1:] {
			_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(number(request)), uintptr(unsafe.Pointer(&block[0])))
			if errno != unix.EPERM && errno != unix.ENOTTY {
				fmt.Printf("%s: %v\n", request, errno)
				return nil
			}
		}
		return errors.New("refused")
	},
	"iouring":   func([]string) error { return call(unix.SYS_IO_URING_SETUP, 1, 0, 0) },
	"bpf":       func([]string) error { return call(unix.SYS_BPF, 0, 0, 0) },
	"setresuid": func([]string) error { return unix.Setresuid(0, 0, 0) },
	"capset": func([]string) error {
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		caps := [2]unix.CapUserData{{Effective: 1, Permitted: 1}}
		return unix.Capset(&hdr, &caps[0])
	},
	"seccomp": func([]string) error {
		if err := unix.Prctl(unix.PR_SET_SECCOMP, 0, 0, 0, 0); err == nil {
			return nil
		}
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0)
	},
}

func number(s string) int {
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		panic(err)
	}
	return int(n)
}

// call reports what is not the filter's answer as success.
func call(nr, a, b, c uintptr) error {
	if _, _, errno := unix.Syscall(nr, a, b, c); errno == unix.EPERM {
		return errno
	}
	return nil
}

// setuid runs a setuid program and looks whether it got another identity.
func setuid(a []string) error {
	cmd := exec.Command(a[0], "--help")
	cmd.Stdout = io.Discard
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = cmd.Wait() }()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/status")
	if err != nil {
		return err
	}
	want := fmt.Sprintf("Uid:\t%d\t%d\t%d\t%d\n", os.Getuid(), os.Getuid(), os.Getuid(), os.Getuid())
	if strings.Contains(string(b), want) {
		return fmt.Errorf("still %d", os.Getuid())
	}
	return nil
}

// unlinkOnThread unlinks on a thread that is not the first one. Upon a line of
// input that thread gets the named signals.
func unlinkOnThread(args []string) error {
	signals := make([]syscall.Signal, 0, len(args))
	for _, name := range args[1:] {
		signals = append(signals, unix.SignalNum("SIG"+name))
	}
	caught := make(chan os.Signal, 10)
	signal.Notify(caught, syscall.SIGUSR1)
	tid, done := make(chan int), make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() { // the next one is another
			go func() { runtime.LockOSThread(); tid <- unix.Gettid(); done <- unix.Unlink(args[0]) }()
			select {}
		}
		tid <- unix.Gettid()
		done <- unix.Unlink(args[0])
	}()
	thread := <-tid
	go func() {
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
			return
		}
		for _, s := range signals {
			_ = unix.Tgkill(os.Getpid(), thread, s)
		}
	}()
	return <-done
}

// cut empties a file by opening it, but not for writing.
func cut(access int) func([]string) error {
	return func(a []string) error {
		fd, err := unix.Open(a[0], access|unix.O_TRUNC, 0)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}
}

func cut2(path string) error {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_TRUNC})
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

// cutWhileSwapped tries to cut off the file that is standard input, and that a[0] names, by a name that is by turns a file of our own's:
// until it is cut, or a[1] times, and 50 times after the name was changed once more (a busy machine runs one of the two for a while,
// and then the other).
func cutWhileSwapped(a []string) error {
	dir, err := os.MkdirTemp("/tmp", "swapped")
	if err != nil {
		return err
	}
	own, way := dir+"/own", dir+"/way"
	if err := os.WriteFile(own, []byte("own"), 0o600); err != nil {
		return err
	}
	if err := os.Symlink(own, way); err != nil {
		return err
	}
	var done atomic.Bool
	var swaps atomic.Int64
	defer done.Store(true)
	go func() {
		for i := 0; !done.Load(); i++ {
			to := []string{own, a[0]}[i%2]
			if os.Symlink(to, dir+"/next") == nil {
				_ = os.Rename(dir+"/next", way)
			}
			swaps.Add(1)
		}
	}()
	last, swapped := int64(0), 0
	for tries := 0; tries < number(a[1]) || swapped < 50; tries++ {
		if now := swaps.Load(); now != last {
			last, swapped = now, swapped+1
		}
		_ = cut(unix.O_RDONLY)([]string{way})
		_ = cut2(way)
		_ = unix.Truncate(way, 0)
		var st unix.Stat_t
		if err := unix.Fstat(0, &st); err != nil || st.Size == 0 {
			return err
		}
	}
	return errors.New("it was never cut")
}
