package shortcut

import (
	"os"
	"os/signal"
	"syscall"
	"time"
	"unsafe"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/stamp"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/stepline"
	"github.com/codeagent/sandbox/hypervisor/inherit"
)

// urgent are the signals that somebody must see to while the command runs; quiet ones wait for its end.
var urgent = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
	syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// begin does what the package is for. It returns if main has to act.
func begin() (_ *Run, alone bool) {
	l, ok := parse(os.Args[1:])
	if !ok || inside() {
		return nil, false
	}
	dir, ok := l.resolve()
	if !ok {
		return nil, false
	}
	socket, stamps := session(l.folder, dir)
	if socket == "" {
		return nil, true
	}
	if l.logs || isTerminal(0) || isTerminal(1) || isTerminal(2) || configured(l, dir, stamps) {
		return nil, false
	}
	env, bad := inherit.VariablesOfCommand(os.Environ(), l.env)
	if bad != nil || !l.passed() {
		return nil, false
	}
	// Both hear from before the request is sent: the command may run, and be signalled, before it is followed. To catch signals takes as long as
	// what is done meanwhile.
	r := &Run{Signals: make(chan os.Signal, 16), Socket: socket}
	wake, caught := make(chan os.Signal, 1), make(chan struct{})
	go func() {
		heard := heeded(urgent)
		signal.Notify(r.Signals, append([]os.Signal{syscall.SIGPIPE}, heard...)...)
		signal.Notify(wake, heard...)
		close(caught)
	}()
	defer signal.Stop(wake)
	request, ok := ask(l, env, dir)
	var conn int
	if ok {
		conn, ok = connect(socket)
	}
	<-caught
	if ok {
		r.Conn = send(conn, socket, request, l.further)
	}
	if r.Conn == nil {
		signal.Stop(r.Signals)
		return nil, false
	}
	if end, over := r.follow(wake); over {
		_, _ = os.Stderr.WriteString(l.tell(end)) // a lost stderr is no failure of the command
		Die(end.signal)
		os.Exit(end.status)
	}
	return r, false
}

// inside reports whether this is inside a sandbox.
func inside() bool { return os.Getenv("SANDBOX") != "" || os.Getenv("SANDBOX_STEPS") != "" }

// isTerminal reports whether a descriptor is a terminal. Who sits there is told what is waited for, and the command has a terminal of
// its own instead of it.
func isTerminal(fd uintptr) bool {
	var t syscall.Termios
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TCGETS, uintptr(unsafe.Pointer(&t)))
	return errno == 0
}

// tell is what there is to say about the end of the command, which was asked for with these flags.
func (l *line) tell(end ended) string {
	if end.paths == 0 {
		return ""
	}
	if !l.named {
		end.folder = ""
	}
	return stepline.Changed(end.step, end.paths, "", stepline.Undo(end.folder, l.undoWord, ""))
}

// resolve completes the folder and the undo directory, and returns the directory that the command starts in.
func (l *line) resolve() (dir string, ok bool) {
	if dir, ok = real("."); !ok {
		return "", false
	}
	l.named, l.undoWord = l.folder != "", l.undo
	if l.folder == "" && l.undo == "" {
		return dir, true
	}
	if l.folder == "" {
		l.folder = dir
	} else if l.folder, ok = real(l.folder); !ok {
		return "", false
	}
	if l.undo != "" {
		if l.undo, ok = real(l.undo); !ok {
			return "", false
		}
	}
	if !within(dir, l.folder) {
		dir = l.folder
	}
	return dir, true
}

// real is the absolute path, without links, of a directory that is there.
func real(path string) (string, bool) {
	const pathOnly = 0x200000 // O_PATH
	fd, err := syscall.Open(path, pathOnly|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return "", false
	}
	defer syscall.Close(fd)
	real, err := os.Readlink("/proc/self/fd/" + stepline.Decimal(int64(fd)))
	return real, err == nil && begins(real, "/") && !ends(real, " (deleted)")
}

// within is lexical.Within for a directory that is not the root: path/filepath would have this package initialised later.
func within(path, dir string) bool { return path == dir || begins(path, dir+"/") }

// configured reports whether main has to read a file of configuration. It need not if there is none, nor if the session has read the same
// ones, and says by their stamps that they are about nothing but itself.
func configured(l line, dir string, stamps []string) bool {
	own, err := os.UserConfigDir()
	if err != nil {
		return true
	}
	if l.folder != "" {
		dir = l.folder
	}
	present, gone := false, false
	for i, parent := range [...]string{"/etc/codeagent", own + "/codeagent", dir} {
		path := parent + "/codeagent.toml"
		const project = 2
		info, err := os.Lstat(path)
		if os.IsNotExist(err) { // without it, those after it may mean something else, or be wrong
			gone = gone || i != project && has(stamps, func(s string) bool { return ends(s, " "+path) })
			continue
		}
		if err == nil && i != project { // a link is followed
			info, err = os.Stat(path)
		}
		present = true
		if err != nil || !has(stamps, func(s string) bool { return s == stamp.Of(info)+" "+path }) {
			return true
		}
	}
	return present && gone
}

func has(list []string, is func(string) bool) bool {
	for _, s := range list {
		if is(s) {
			return true
		}
	}
	return false
}

// session is the socket of the session that has the folder, or of which dir is in a folder, and the stamps of its configuration; empty if that is
// not sure.
func session(folder, dir string) (socket string, stamps []string) {
	base, unfit := inherit.SocketDir()
	if len(unfit) > 0 { // main says so
		return "", nil
	}
	place, err := os.Open(base)
	if err != nil {
		return "", nil
	}
	defer place.Close()
	st, err := place.Stat()
	if err != nil || !st.IsDir() || !private(st) || st.Mode().Perm()&0o077 != 0 {
		return "", nil
	}
	names, err := place.Readdirnames(-1)
	if err != nil {
		return "", nil
	}
	for _, name := range names {
		path := base + "/" + name
		st, err := os.Lstat(path)
		if err != nil || !private(st) {
			return "", nil
		}
		if !ends(name, ".json") {
			continue
		}
		b, err := os.ReadFile(path)
		at, folders, read, ok := registration(b)
		if err != nil || !st.Mode().IsRegular() || !ok {
			return "", nil
		}
		for _, f := range folders {
			if folder != "" && f == folder || folder == "" && within(dir, f) {
				if socket != "" && socket != at { // more than one: who is asked first is main's to say
					return "", nil
				}
				socket, stamps = at, read
			}
		}
	}
	return socket, stamps
}

// private reports whether a file is this user's.
func private(st os.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Getuid()
}

// connect connects with a session of this user.
func connect(socket string) (fd int, ok bool) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: socket}); err == nil {
		if peer, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil && int(peer.Uid) == os.Geteuid() {
			return fd, true
		}
	}
	_ = syscall.Close(fd)
	return 0, false
}

// passed completes what the command inherits. It returns false if main has to say that some of it is not passed.
func (l *line) passed() bool {
	l.ignored, l.asks = inherit.IgnoredSignal(), inherit.HasTerminal()
	if l.alone {
		return true
	}
	l.further = inherit.PassedDescriptors()
	for _, fd := range l.further {
		if inherit.CheckDescriptor(fd, inherit.FurtherDescriptors) != nil {
			return false
		}
	}
	return len(l.further) <= inherit.MostDescriptors
}

// send gives the request, with this process's three files and those that were passed to it, to the session. It returns nil if not all
// of it was sent: then nothing is run.
func send(fd int, socket string, request []byte, further []int) *os.File {
	n, err := syscall.SendmsgN(fd, request, syscall.UnixRights(append([]int{0, 1, 2}, further...)...), nil, syscall.MSG_NOSIGNAL)
	for err == nil && n < len(request) {
		var more int
		more, err = syscall.SendmsgN(fd, request[n:], nil, nil, syscall.MSG_NOSIGNAL)
		n += more
	}
	if err != nil {
		_ = syscall.Close(fd)
		return nil
	}
	_ = syscall.SetNonblock(fd, true) // cannot fail; if it did, a signal would wait
	return os.NewFile(uintptr(fd), socket)
}

// follow reads the answer until the command has ended, or wake has a signal. over is false if main has to go on from
// what was read.
func (r *Run) follow(wake <-chan os.Signal) (end ended, over bool) {
	followed := make(chan struct{})
	defer close(followed)
	go func() {
		select {
		case <-wake:
			_ = r.Conn.SetReadDeadline(time.Unix(1, 0))
		case <-followed:
		}
	}()
	buf := make([]byte, 4096)
	for {
		n, err := r.Conn.Read(buf)
		r.Answer = append(r.Answer, buf[:n]...)
		end, over, strange := read(r.Answer)
		if over || strange || err != nil {
			return end, over
		}
	}
}
