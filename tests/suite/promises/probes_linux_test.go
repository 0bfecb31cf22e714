package promises

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if len(os.Args) >= 2 && os.Args[1] == "inside" {
		os.Exit(insideMain(os.Args[2:]))
	}
	if len(os.Args) == 3 && os.Args[1] == "restricted" {
		os.Exit(restrictedMain(os.Args[2]))
	}
	os.Exit(m.Run())
}

// insideMain tries all that this session promises, and prints a report. If nobody can say now which the control sockets are, they are asked for.
func insideMain(control []string) int {
	var p prey
	text, err := os.ReadFile("prey")
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if p.Control = control; len(control) == 0 {
		fmt.Println("ready")
		line, err := bufio.NewReader(os.Stdin).ReadString('\n')
		if err != nil {
			fmt.Println(err)
			return 1
		}
		p.Control = strings.Fields(line)
	}
	found := report{}
	for _, m := range promises() {
		if m.inside != nil && m.applies(p.Cell) {
			found[m.id] = ""
			if err := m.inside(&p); err != nil {
				found[m.id] = err.Error()
			}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		return 1
	}
	return 0
}

// way is one of the ways to do what must fail.
type way struct {
	name string
	do   func() error
}

// tried returns those that did not fail.
func tried(ways ...way) error {
	var done []string
	for _, w := range ways {
		if w.do() == nil {
			done = append(done, w.name)
		}
	}
	if len(done) > 0 {
		return errors.New(strings.Join(done, ", "))
	}
	return nil
}

// changes are ways to change a directory with "file", "victim", "dir/in" and "fifo" in it.
func changes(dir, work string) []way {
	file, sub := dir+"/file", dir+"/dir"
	open := func(path string, flags int) func() error {
		return func() error {
			fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o666)
			if err == nil {
				_, err = unix.Write(fd, []byte("x"))
				_ = unix.Close(fd)
			}
			return err
		}
	}
	// again opens a descriptor once more, for writing.
	again := func(flags int) func() error {
		return func() error {
			fd, err := unix.Open(file, flags|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_WRONLY)()
		}
	}
	times := []unix.Timespec{{Sec: 1}, {Sec: 1}}
	at := func(do func(fd int) error) func() error {
		return func() error {
			fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return do(fd)
		}
	}
	return []way{
		{"write", open(file, unix.O_WRONLY)}, {"append", open(file, unix.O_RDWR|unix.O_APPEND)}, {"cut", open(file, unix.O_WRONLY|unix.O_TRUNC)},
		{"truncate", func() error { return unix.Truncate(file, 0) }}, {"create", open(dir+"/new", unix.O_WRONLY|unix.O_CREAT)},
		{"through our root", open("/proc/self/root"+file, unix.O_WRONLY)}, {"through PID 1's", open("/proc/1/root"+file, unix.O_WRONLY)},
		{"from the folder", open(work+"/../outside/file", unix.O_WRONLY)}, {"a pipe", open(dir+"/fifo", unix.O_WRONLY)},
		{"a file without a name", open(dir, unix.O_TMPFILE|unix.O_WRONLY)}, {"reading again", again(unix.O_RDONLY)}, {"a path again", again(unix.O_PATH)},
		{"mkdir", func() error { return unix.Mkdir(dir+"/newdir", 0o777) }}, {"mkfifo", func() error { return unix.Mkfifo(sub+"/newpipe", 0o666) }},
		{"unlink", func() error { return unix.Unlink(dir + "/victim") }}, {"rename", func() error { return unix.Rename(dir+"/victim", dir+"/renamed") }},
		{"exchange", func() error {
			return unix.Renameat2(unix.AT_FDCWD, dir+"/victim", unix.AT_FDCWD, file, unix.RENAME_EXCHANGE)
		}},
		{"symlink", func() error { return unix.Symlink("/", sub+"/newlink") }}, {"link", func() error { return unix.Link(file, sub+"/linked") }},
		{"link into the folder", func() error { return unix.Link(file, work+"/stolen") }}, {"move into the folder", func() error { return unix.Rename(dir+"/victim", work+"/stolen") }},
		{"chmod", func() error { return unix.Chmod(file, 0o600) }}, {"chown", func() error { return unix.Chown(file, os.Getuid(), os.Getgid()) }},
		{"utimens", func() error { return unix.UtimesNanoAt(unix.AT_FDCWD, file, times, 0) }}, {"setxattr", func() error { return unix.Setxattr(file, "user.x", []byte("x"), 0) }},
		{"mkdirat", at(func(fd int) error { return unix.Mkdirat(fd, "newdir2", 0o777) })}, {"unlinkat", at(func(fd int) error { return unix.Unlinkat(fd, "victim", 0) })},
		{"by a symlink in the folder", func() error {
			_ = unix.Symlink("../outside/file", work+"/out")
			return open(work+"/out", unix.O_WRONLY)()
		}},
	}
}

func changeOutside(p *prey) error { return tried(changes(p.Outside, p.Work)...) }

// changeHome does what an overlay lets it do; it is looked outside whether anything came through.
func changeHome(p *prey) error {
	done := false
	for _, home := range p.Homes {
		for _, f := range []string{home + "/notes/n", home + "/new"} {
			done = os.WriteFile(f, []byte("x"), 0o644) == nil || done
		}
		done = errors.Join(os.Remove(home+"/notes/n"), os.Remove(home+"/notes")) == nil || done
	}
	if done && p.Cell.Isolation == "jail" && p.Cell.Home == "read-only" {
		return errors.New("what is read-only was written")
	}
	return nil
}

// read returns how a file could be read.
func read(path string) error {
	open := func(path string) func() error {
		return func() error {
			fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			b := make([]byte, len(treasure))
			if n, err := unix.Read(fd, b); err != nil || string(b[:max(n, 0)]) != treasure {
				return errors.Join(err, errors.New("another file"))
			}
			return nil
		}
	}
	return tried(
		way{"open", open(path)}, way{"our root", open("/proc/self/root" + path)}, way{"PID 1's root", open("/proc/1/root" + path)},
		way{"a path", func() error {
			fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return open(fmt.Sprintf("/proc/self/fd/%d", fd))()
		}})
}

// readLink returns how it could be read by another name.
func readLink(path, work string) error {
	if unix.Link(path, work+"/linked") != nil {
		return nil
	}
	defer os.Remove(work + "/linked")
	if err := read(work + "/linked"); err != nil {
		return fmt.Errorf("a link: %w", err)
	}
	return nil
}

func readAll(p *prey, paths []string) error {
	var all []error
	for i, path := range paths {
		if p.Cell.Mode == "dynamic" && len(paths) > 20 && i%8 != 0 {
			continue // each is a question, which takes its time
		}
		err := read(path)
		if i%20 == 0 { // where a look asks a person, nobody answers in time
			err = errors.Join(err, readLink(path, p.Work))
		}
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", path, err))
		}
	}
	return errors.Join(all...)
}

// readHidden moves what is above it away, too.
func readHidden(p *prey) error {
	err := readAll(p, p.Hidden)
	for i, h := range p.Hidden {
		to := fmt.Sprintf("%s-%d", filepath.Dir(h), i)
		if filepath.Dir(h) != p.Work && os.Rename(filepath.Dir(h), to) == nil {
			err = errors.Join(err, read(to+"/"+filepath.Base(h)), os.Rename(to, filepath.Dir(h)))
		}
	}
	return err
}

func readSecrets(p *prey) error {
	err := readAll(p, p.Secrets)
	for _, home := range p.Homes {
		for i, name := range []string{".config", ".local", ".ssh", ".aws", ".cache"} {
			from, to := home+"/"+name, fmt.Sprintf("%s/moved-%d", home, i)
			if os.Rename(from, to) != nil {
				continue
			}
			for j, s := range p.Secrets {
				if p.Cell.Mode == "dynamic" && j%8 != 0 {
					continue
				}
				if rest, ok := strings.CutPrefix(s, from+"/"); ok {
					err = errors.Join(err, read(to+"/"+rest))
				}
			}
			err = errors.Join(err, os.Rename(to, from))
		}
	}
	return err
}

func readEnvironment(p *prey) error {
	all := []string{"/proc/self/environ"}
	if p.Cell.Isolation != "none" {
		all, _ = filepath.Glob("/proc/[0-9]*/environ")
	}
	for _, f := range all {
		if b, _ := os.ReadFile(f); strings.Contains(string(b), treasure) {
			return errors.New(f + " has a credential")
		}
	}
	return nil
}

// reachLogs looks for something in them, and makes something there.
func reachLogs(p *prey) error {
	var all []error
	for _, log := range p.Logs {
		_ = filepath.WalkDir(log, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || !d.Type().IsRegular():
				return nil
			case p.Cell.Isolation != "landlock": // whose names can be seen
				all = append(all, errors.New(path+" can be seen"))
			}
			if b, err := os.ReadFile(path); err == nil {
				all = append(all, fmt.Errorf("%s can be read: %d bytes", path, len(b)))
			}
			return nil
		})
		if f, err := os.OpenFile(log+"/new", os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
			all = append(all, f.Close(), made(p, log))
		}
	}
	return errors.Join(all...)
}

// made says that something was made in a log, unless it is a layer's: an overlay takes what it is given.
func made(p *prey, log string) error {
	if p.Cell.Isolation == "jail" && p.Cell.Home == "overlay" {
		for _, home := range p.Homes {
			if strings.HasPrefix(log, home+"/") {
				return nil // looked at outside
			}
		}
	}
	return errors.New("something was made in " + log)
}

// seeProcesses looks for the one outside.
func seeProcesses(*prey) error {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range lines {
		if b, _ := os.ReadFile(f); strings.Contains(string(b), "sleep\x00"+marker) {
			return errors.New(f)
		}
	}
	return nil
}

// outsiders are processes that are not the session's: by their numbers, of which one inside may have one, too.
func outsiders(p *prey) (out []int) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	seen := false
	for _, f := range lines {
		pid := 0
		_, _ = fmt.Sscanf(f, "/proc/%d/", &pid)
		seen = seen || pid == p.PID
		if b, _ := os.ReadFile(f); strings.Contains(string(b), "sleep\x00"+marker) || strings.Contains(string(b), p.Work+"\x00") && (strings.Contains(string(b), "\x00run\x00") || strings.Contains(string(b), "\x00start\x00")) {
			out = append(out, pid)
		}
	}
	if !seen {
		out = append(out, p.PID)
	}
	return out
}

func touchProcesses(p *prey) error {
	var all []error
	for _, pid := range outsiders(p) {
		file := func(name string) way {
			return way{name, func() error {
				f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, name))
				if err == nil {
					_, err = f.Read(make([]byte, 8))
					_ = f.Close()
				}
				return err
			}}
		}
		b := make([]byte, 8)
		err := tried(file("mem"), file("environ"), file("maps"), file("root/etc/passwd"), file("cwd/prey"),
			way{"signal", func() error { return unix.Kill(pid, 0) }}, way{"kill", func() error { return unix.Kill(pid, unix.SIGKILL) }},
			way{"ptrace", func() error { return unix.PtraceAttach(pid) }},
			way{"limits", func() error { return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: 1}, nil) }},
			way{"memory", func() error {
				_, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &b[0], Len: 8}}, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
				return err
			}},
			way{"descriptors", func() error {
				fd, err := unix.PidfdOpen(pid, 0)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				_, err = unix.PidfdGetfd(fd, 0, 0)
				return err
			}})
		if err != nil {
			all = append(all, fmt.Errorf("process %d: %w", pid, err))
		}
	}
	return errors.Join(all...)
}

// restrictItself starts a program that may write nothing, which writes in the folder.
func restrictItself(p *prey) error {
	put := p.Work + "/against-own-limits"
	out, err := exec.Command(p.Work+"/prober", "restricted", put).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
