package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cleanUpTime is what mmdebstrap gets to unmount and remove its directory when
// it is ended.
const cleanUpTime = 30 * time.Second

// leaveNoTrace removes what the building machine would leave in the system: its
// name, its name servers. $1 is the system's root.
const leaveNoTrace = `set -e
rm -f "$1/etc/resolv.conf" "$1/etc/hostname" "$1/etc/hosts"
: >"$1/etc/resolv.conf"
echo sandbox >"$1/etc/hostname"
printf '127.0.0.1 localhost sandbox\n::1 localhost\n' >"$1/etc/hosts"
rm -rf "$1"/var/log/* "$1/var/cache/ldconfig/aux-cache"`

// debian lets mmdebstrap install the packages into a directory that it removes
// again, and writes what it made of it, a tar archive, as a squashfs.
func debian(ctx context.Context, o RootFSOptions, out string) (map[string]string, error) {
	if err := tools(os.Geteuid()); err != nil {
		return nil, err
	}
	install := ended(ctx, "mmdebstrap", mmdebstrapArgs(o))
	// It takes no notice of the archive's root, whose owner would be who builds.
	pack := ended(ctx, "sqfstar", []string{"-quiet", "-no-progress", "-comp", "lz4", "-root-mode", "755", "-root-uid", "0", "-root-gid", "0", out})
	pack.SysProcAttr = asRoot() // it takes no notice of -root-uid (4.5)
	for _, c := range []*exec.Cmd{install, pack} {
		c.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "SOURCE_DATE_EPOCH="+strconv.FormatInt(o.Epoch.Unix(), 10))
	}
	said := lines{log: func(line string) { o.Logger.Info(line, "component", "image") }}
	var packSaid bytes.Buffer
	install.Stderr, pack.Stdout, pack.Stderr = &said, &packSaid, &packSaid
	archive, err := install.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	packed, err := pack.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	if err := pack.Start(); err != nil {
		return nil, fmt.Errorf("image: sqfstar: %w", err)
	}
	if err := install.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("image: mmdebstrap: %w", err), packed.Close(), pack.Wait())
	}
	packages, err := installed(io.TeeReader(archive, packed))
	if err != nil {
		_, _ = io.Copy(io.Discard, archive) // or it would wait for us
	}
	// The cause comes first: what follows from it tells little.
	if ierr := install.Wait(); ierr != nil {
		err = fmt.Errorf("image: mmdebstrap: %w: %s", ierr, said.errors())
		if os.Geteuid() != 0 {
			err = fmt.Errorf("%w; without root it needs user namespaces and lines for you in /etc/subuid and /etc/subgid", err)
		}
	}
	_ = packed.Close()
	if perr := pack.Wait(); perr != nil && (err == nil || errors.Is(err, syscall.EPIPE)) {
		err = fmt.Errorf("image: sqfstar: %w: %s", perr, lastLine(packSaid.String()))
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return packages, err
}

// asRoot makes a program believe that it is root's, in a user namespace with
// nobody else.
func asRoot() *syscall.SysProcAttr {
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		return nil
	}
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: gid, Size: 1}},
	}
}

// errNoGain is where newuidmap, which is setuid, has no effect: inside of a sandbox, and in what a program that serves a session starts.
var errNoGain = errors.New("image: a Debian root file system is built with newuidmap, which needs its setuid bit, and this process cannot gain rights (no_new_privs): build it from a shell, 'sandbox guest build --rootfs debian', or name a file system of your own: --rootfs-path")

// tools says what uid is missing.
func tools(uid int) error {
	needed := [][2]string{{"mmdebstrap", "mmdebstrap"}, {"sqfstar", "squashfs-tools"}}
	if uid != 0 {
		if set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && set == 1 {
			return errNoGain
		}
		needed = append(needed, [2]string{"newuidmap", "uidmap"})
	}
	var missing []string
	for _, n := range needed {
		if _, err := exec.LookPath(n[0]); err != nil {
			missing = append(missing, n[1])
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("image: a Debian root file system is built with programs that are not here: sudo apt install %s; or name a file system of your own: --rootfs-path", strings.Join(missing, " "))
	}
	return nil
}

func mmdebstrapArgs(o RootFSOptions) []string {
	args := []string{
		"--variant=essential", "--format=tar", "--architectures=" + o.Arch,
		// The directory is thrown away: nobody needs it on the disk.
		"--dpkgopt=force-unsafe-io",
		"--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/info/*",
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-include=/usr/share/doc/*/copyright",
		"--dpkgopt=path-exclude=/usr/share/locale/*",
		"--customize-hook=" + leaveNoTrace,
	}
	if len(o.Include) > 0 {
		args = append(args, "--include="+strings.Join(o.Include, ","))
	}
	args = append(args, o.Suite, "-")
	if o.Mirror != "" {
		args = append(args, o.Mirror)
	}
	return args
}

// ended is a command that is asked to end with the context.
func ended(ctx context.Context, program string, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = cleanUpTime
	return cmd
}

// lines logs what a program says about its progress and keeps the end of it.
type lines struct {
	log  func(line string)
	rest string
	last []string
}

// Write implements [io.Writer].
func (l *lines) Write(p []byte) (int, error) {
	const kept = 20
	l.rest += string(p)
	for {
		line, rest, ok := strings.Cut(l.rest, "\n")
		if !ok {
			return len(p), nil
		}
		l.rest = rest
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if text, ok := strings.CutPrefix(line, "I: "); ok {
			l.log(text)
			continue
		}
		if l.last = append(l.last, line); len(l.last) > kept {
			l.last = l.last[1:]
		}
	}
}

// errors are the lines that say what is wrong, or else the last one.
func (l *lines) errors() string {
	var found []string
	for _, line := range l.last {
		if strings.HasPrefix(line, "E: ") && !strings.Contains(line, "mmdebstrap failed to run") {
			found = append(found, line)
		}
	}
	if len(found) == 0 && len(l.last) > 0 {
		found = l.last[len(l.last)-1:]
	}
	return strings.Join(found, "; ")
}
