package user

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Name of the user.
const Name = "sandbox-test"

// PassEnv is set for the program, so that package require knows that the same
// tests run as root as well.
const PassEnv = "SANDBOX_TEST_USER_PASS"

// Run runs the program with this process's standard streams and returns its
// exit status.
func Run(program string, args ...string) (int, error) {
	return run(program, args, os.Stdin, os.Stdout, os.Stderr)
}

// CombinedOutput runs the program and returns what it printed. A status other
// than zero is an error.
func CombinedOutput(program string, args ...string) ([]byte, error) {
	var out bytes.Buffer
	code, err := run(program, args, nil, &out, &out)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit status %d", code)
	}
	return out.Bytes(), err
}

func run(program string, args []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("must be started as root")
	}
	who, err := ensureUser()
	if err != nil {
		return 0, err
	}
	stage, err := os.MkdirTemp("", "asuser-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(stage)
	if err := os.Chmod(stage, 0o755); err != nil {
		return 0, err
	}

	type result struct {
		code int
		err  error
	}
	done := make(chan result)
	go func() {
		// The thread gets a mount namespace of its own and its children inherit
		// that. It is never unlocked: it ends with this goroutine.
		runtime.LockOSThread()
		code, err := runHere(who, stage, program, args, stdin, stdout, stderr)
		done <- result{code, err}
	}()
	r := <-done
	return r.code, r.err
}

func runHere(who *account, stage, program string, args []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return 0, fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return 0, fmt.Errorf("make mounts private: %w", err)
	}
	if err := openDevices(stage); err != nil {
		return 0, err
	}
	exe, err := copyProgram(stage, program)
	if err != nil {
		return 0, err
	}
	dir, err := bindModule(stage)
	if err != nil {
		return 0, err
	}

	cmd := exec.Command(exe, args...)
	cmd.Dir = dir
	cmd.Env = who.environ()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: who.uid, Gid: who.gid, Groups: []uint32{who.gid}},
		Pdeathsig:  syscall.SIGKILL,
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals: // go test sends SIGQUIT when time is up
				_ = cmd.Process.Signal(s)
			case <-ended:
				return
			}
		}
	}()
	err = cmd.Wait()
	close(ended)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if exit.ExitCode() < 0 {
			return 128 + int(exit.Sys().(syscall.WaitStatus).Signal()), nil
		}
		return exit.ExitCode(), nil
	}
	return 0, err
}

// devices that everybody may open on ordinary distributions, by their numbers.
var devices = map[string]uint64{"/dev/fuse": unix.Mkdev(10, 229), "/dev/net/tun": unix.Mkdev(10, 200)}

// openDevices puts nodes that everybody may open over them.
func openDevices(stage string) error {
	dev := filepath.Join(stage, "dev")
	if err := os.Mkdir(dev, 0o755); err != nil {
		return err
	}
	// A file system of its own: what holds stage may not allow device nodes.
	if err := unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755,size=64k"); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	for path, number := range devices {
		st, err := os.Stat(path)
		if err != nil || st.Mode().Perm()&0o006 == 0o006 {
			continue // the tests say that it is missing
		}
		node := filepath.Join(dev, filepath.Base(path))
		if err := unix.Mknod(node, unix.S_IFCHR, int(number)); err != nil {
			return fmt.Errorf("mknod: %w", err)
		}
		if err := os.Chmod(node, 0o666); err != nil {
			return err
		}
		if err := unix.Mount(node, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind over %s: %w", path, err)
		}
	}
	return nil
}

// copyProgram puts the program where its user can reach it: go test makes its
// binaries in directories that only root may enter.
func copyProgram(stage, program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", err
	}
	in, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer in.Close()
	to := filepath.Join(stage, filepath.Base(path))
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	return to, errors.Join(err, out.Close(), os.Chmod(to, 0o755))
}

// bindModule makes the module around the working directory visible in stage,
// read-only, and returns where the working directory is there. Without a
// module it stays where it is.
func bindModule(stage string) (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	root := wd
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		if root == "/" {
			return wd, nil
		}
		root = filepath.Dir(root)
	}
	at := filepath.Join(stage, "module")
	if err := os.Mkdir(at, 0o755); err != nil {
		return "", err
	}
	if err := unix.Mount(root, at, "", unix.MS_BIND, ""); err != nil {
		return "", fmt.Errorf("bind the module: %w", err)
	}
	if err := unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		return "", fmt.Errorf("bind the module read-only: %w", err)
	}
	rel, err := filepath.Rel(root, wd)
	return filepath.Join(at, rel), err
}

type account struct {
	uid, gid uint32
	home     string
}

// ensureUser finds the user or makes it.
func ensureUser() (*account, error) {
	u, err := user.Lookup(Name)
	if err != nil {
		out, addErr := exec.Command("useradd", "--create-home", "--shell", "/bin/sh", Name).CombinedOutput()
		// Another package's tests may have been faster.
		if u, err = user.Lookup(Name); err != nil {
			return nil, fmt.Errorf("make the user %s: %w (%s)", Name, errors.Join(addErr, err), bytes.TrimSpace(out))
		}
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &account{uint32(uid), uint32(gid), u.HomeDir}, errors.Join(err1, err2)
}

// environ is this process's environment with what belongs to root replaced.
func (a *account) environ() []string {
	env := []string{PassEnv + "=1", "HOME=" + a.home, "USER=" + Name, "LOGNAME=" + Name}
	for _, kv := range os.Environ() {
		switch key, _, _ := strings.Cut(kv, "="); {
		case key == "HOME", key == "USER", key == "LOGNAME", key == PassEnv:
		case strings.HasPrefix(key, "XDG_"), strings.HasPrefix(key, "SUDO_"):
		case strings.HasPrefix(key, "GO") && key != "GORACE": // caches of root's
		default:
			env = append(env, kv)
		}
	}
	return env
}

// IDs returns the user's numbers, making the user if need be.
func IDs() (uid, gid uint32, err error) {
	a, err := ensureUser()
	if err != nil {
		return 0, 0, err
	}
	return a.uid, a.gid, nil
}
