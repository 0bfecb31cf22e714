package promises

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/guestimage"
	"github.com/codeagent/sandbox/tests/kit/screen"
)

// treasure is in all that must not be read inside.
const treasure = "the treasure"

// marker is in the command lines of processes outside.
const marker = "1000.000001"

// caller is who calls sudo: a uid that nobody else has.
const caller = 61234

// prey is what the program inside is told of what lies outside.
type prey struct {
	Cell    cell
	Work    string
	Outside string   // a directory and files that everybody may write to
	Homes   []string // of the command, and of who started the session
	Secrets []string // files
	Hidden  []string // files that --hide names, or in directories that it names
	Logs    []string // undo logs, of this folder and of others
	Runtime string   // the directory of control sockets
	Sockets []string // of programs outside, by the names that they have, had, or will have when a command tries
	Queue   string   // an abstract socket
	TCP     [4]byte
	Port    int
	PID     int    // of a process outside
	TTY     uint64 // the terminal's device, and its number there
	TTYNode uint64
	Control []string // sockets, told when the session is up
}

// place is a machine's part with a user, a home, a working folder and things that must stay as they are.
type place struct {
	prey
	t       *testing.T
	ctx     context.Context // ends what hangs
	base    string
	uid     int // of commands
	home    string
	state   string // XDG_STATE_HOME, or empty
	undo    string // --undo-dir, or empty
	moved   []string
	sleeper *exec.Cmd
	master  *os.File
	slave   *os.File
	passwd  string
}

// newPlace makes it. It is not below /tmp, of which a jail has its own.
func newPlace(t *testing.T, c cell) *place {
	t.Helper()
	above := "/var/cache"
	if c.User == "user" {
		above = os.Getenv("HOME")
	}
	base, err := os.MkdirTemp(above, "pm-")
	must(t, err)
	t.Cleanup(func() { discard(t, base) })
	must(t, os.Chmod(base, 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	p := &place{t: t, ctx: ctx, base: base, home: filepath.Join(base, "home"), uid: os.Getuid()}
	p.Cell, p.Work, p.Outside, p.Runtime = c, base+"/work", base+"/outside", base+"/run"
	p.Homes = []string{p.home}
	switch c.User {
	case "root":
		p.uid = jail.AnonymousAccount
	case "sudo":
		p.uid = caller
		p.Homes = append(p.Homes, base+"/roots")
		p.passwd = base + "/passwd"
	}
	for _, dir := range append([]string{p.Work, base + "/second", base + "/daemons", p.Outside, p.Outside + "/dir", p.Runtime}, p.Homes...) {
		must(t, os.Mkdir(dir, 0o755))
	}
	must(t, os.Chmod(p.Runtime, 0o700))
	p.fill()
	p.logs()
	p.listen()
	p.terminal()
	p.sleeper = exec.Command("sleep", marker)
	must(t, p.sleeper.Start())
	t.Cleanup(func() { _ = p.sleeper.Process.Kill(); _ = p.sleeper.Wait() })
	p.PID = p.sleeper.Process.Pid
	p.own()
	return p
}

// fill puts files into the homes and beside them.
func (p *place) fill() {
	for _, home := range p.Homes {
		for _, s := range hypervisor.HomeSecrets() {
			if strings.HasPrefix(s, ".local/state/sandbox") || s == ".docker" && p.Cell.Isolation == "vm" {
				continue
			}
			p.secret(filepath.Join(home, s))
		}
		put(p.t, home+"/notes/n", "a note")
		must(p.t, os.Link(home+"/.netrc", home+"/notes/linked"))
		p.Secrets = append(p.Secrets, home+"/notes/linked")
	}
	for _, m := range []string{"KUBECONFIG=" + p.base + "/moved/k1:" + p.base + "/moved/k2", "GNUPGHOME=" + p.base + "/moved/gpg", "AWS_SHARED_CREDENTIALS_FILE=" + p.base + "/moved/aws", "DOCKER_CONFIG=" + p.base + "/moved/docker"} {
		_, paths, _ := strings.Cut(m, "=")
		for _, path := range filepath.SplitList(paths) {
			p.secret(path)
		}
		p.moved = append(p.moved, m)
	}
	p.Hidden = []string{p.home + "/private/f", p.home + "/plain", p.Outside + "/hidden"}
	if p.Cell.Isolation == "jail" || p.Cell.Isolation == "vm" {
		p.Hidden = append(p.Hidden, p.Work+"/private/f") // Landlock cannot hide anything in a working folder
	}
	for _, h := range p.Hidden {
		put(p.t, h, treasure)
	}
	for _, f := range []string{"file", "victim", "dir/in"} {
		put(p.t, p.Outside+"/"+f, "host file")
	}
	must(p.t, unix.Mkfifo(p.Outside+"/fifo", 0o666))
	fillFolder(p.t, p.Work)
}

// secret makes one: a file, or a directory with a file if it is one of those that are known to be directories.
func (p *place) secret(path string) {
	if filepath.Ext(path) == "" && !strings.Contains(filepath.Base(path), "_history") {
		path = filepath.Join(path, "in")
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(treasure), 0o644)); err != nil {
		return // it lies below another one, which is a file here
	}
	p.Secrets = append(p.Secrets, path)
}

// logs makes undo logs of other folders, and says where that of this one will be.
func (p *place) logs() {
	state := filepath.Join(p.Homes[len(p.Homes)-1], ".local/state")
	if p.Cell.Log == "beside" { // which it is where the state directory is on another disk
		var err error
		p.state, err = os.MkdirTemp("/dev/shm", "pm-")
		must(p.t, err)
		p.t.Cleanup(func() { discard(p.t, p.state) })
		state = p.state
	}
	p.Logs = []string{p.base + "/.work" + hypervisor.LogSuffix, state + "/sandbox"}
	if p.Cell.Log == "flag" {
		p.undo = p.home + "/log"
		p.Logs = append(p.Logs, p.undo)
	}
	if p.Cell.Isolation == "vm" || p.Cell.Isolation == "none" {
		return // the one has only the folder, the other promises nothing
	}
	for _, other := range []string{p.base + "/.other" + hypervisor.LogSuffix, state + "/sandbox/undo/other-1", p.home + "/.local/state/sandbox/undo/other-2"} {
		put(p.t, other+"/steps/1/journal", treasure)
		p.Logs = append(p.Logs, other)
	}
	elsewhere := p.Outside + "/log" // --undo-dir of another folder
	for _, name := range []string{"version", "lock", "wal", "steps/1/journal"} {
		put(p.t, filepath.Join(elsewhere, name), treasure)
	}
	put(p.t, filepath.Join(p.home, ".local/state/sandbox", hypervisor.LogNotes, "log-1"), elsewhere)
	p.Logs = append(p.Logs, elsewhere)
}

func (p *place) terminal() {
	var err error
	p.master, p.slave, err = screen.OpenPTY()
	must(p.t, err)
	go func() { _, _ = io.Copy(io.Discard, p.master) }()
	p.t.Cleanup(func() { p.master.Close(); p.slave.Close() })
	var st unix.Stat_t
	must(p.t, unix.Fstat(int(p.slave.Fd()), &st))
	p.TTY, p.TTYNode = uint64(st.Dev), st.Ino
}

// own gives everything to whom it belongs; what lies outside may be written by everybody: the walls must refuse, not the modes.
func (p *place) own() {
	if p.Cell.User == "user" {
		p.open()
		return
	}
	his := []string{p.home, p.Outside, p.base + "/moved"}
	if p.Cell.User == "sudo" && p.Cell.Bridge != "mediated" { // which wants that folders belong to who starts it
		his = append(his, p.Work, p.base+"/second")
	}
	for _, dir := range his {
		must(p.t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, p.uid, p.uid))
		}))
	}
	p.open()
	if p.passwd != "" {
		put(p.t, p.passwd, "root:x:0:0:root:/root:/bin/sh\ncaller:x:"+strconv.Itoa(caller)+":"+strconv.Itoa(caller)+"::"+p.home+":/bin/sh\n")
	}
}

func (p *place) open() {
	must(p.t, filepath.WalkDir(p.Outside, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o777)
		}
		return os.Chmod(path, 0o666)
	}))
}

// command prepares the program with what a session of this place is started with.
func (p *place) command(args ...string) *exec.Cmd {
	var flags []string
	if p.undo != "" {
		flags = append(flags, "--undo-dir", p.undo)
	}
	return p.bare(append(append([]string{args[0], "-C", p.Work}, flags...), args[1:]...)...)
}

// bare is command without flags, in a folder that nothing has changed.
func (p *place) bare(args ...string) *exec.Cmd {
	program := drive.Program(p.t, "sandbox")
	cmd := exec.CommandContext(p.ctx, program, args...)
	if p.passwd != "" {
		cmd = exec.CommandContext(p.ctx, "unshare", append([]string{"--mount", "--propagation", "private", "sh", "-c", `mount --bind "$0" /etc/passwd && exec "$@"`, p.passwd, program}, args...)...)
	}
	cmd.Dir = p.base + "/second"
	cmd.Env = append([]string{
		"HOME=" + p.Homes[len(p.Homes)-1], "XDG_RUNTIME_DIR=" + p.Runtime, "PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TERM=xterm",
		"AWS_SECRET_ACCESS_KEY=" + treasure, "GITHUB_TOKEN=" + treasure, "OPENAI_API_KEY=" + treasure, "PGPASSWORD=" + treasure, "SSH_AUTH_SOCK=" + p.Sockets[0],
	}, p.moved...)
	if p.state != "" {
		cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+p.state)
	}
	if p.Cell.User == "sudo" {
		cmd.Env = append(cmd.Env, "SUDO_USER=caller", "SUDO_UID="+strconv.Itoa(caller), "SUDO_GID="+strconv.Itoa(caller))
	}
	return cmd
}

// flags are those of the cell, and what is to be hidden.
func (p *place) flags() []string {
	out := []string{"--isolation", p.Cell.Isolation, "--safeguard-timeout", "50ms"}
	switch p.Cell.Isolation {
	case "jail":
		out = append(out, "--bridge", p.Cell.Bridge, "--mode", p.Cell.Mode, "--home", p.Cell.Home)
	case "vm":
		out = append(out, "--fs-backend", p.Cell.Bridge)
		image := guestimage.Dir
		if p.Cell.Bridge == "9p" { // which the kernel for clouds does not speak
			image = func(t testing.TB) string { return filepath.Join(guestimage.Cache(t), "sandbox", "guest") }
		}
		cache := filepath.Join(p.Homes[len(p.Homes)-1], ".cache/sandbox")
		must(p.t, errors.Join(os.MkdirAll(cache, 0o755), os.Symlink(image(p.t), cache+"/guest")))
	}
	if p.Cell.Isolation == "none" {
		return out
	}
	for _, h := range p.Hidden {
		if filepath.Base(h) == "f" {
			h = filepath.Dir(h)
		}
		out = append(out, "--hide", h)
	}
	return out
}

func discard(t *testing.T, dir string) {
	t.Helper()
	must(t, os.RemoveAll(dir))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put writes a file and the directories above it.
func put(t testing.TB, path, content string) {
	t.Helper()
	must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)))
}
