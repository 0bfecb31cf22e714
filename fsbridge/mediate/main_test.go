//go:build linux

package mediate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/tests/kit/direct"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// The test program is its own workload: it starts itself in new name spaces, where it
// mounts the folder read-only, loads the filter, sends the listener and executes
// itself once more.
const (
	envStage  = "MEDIATE_TEST_STAGE"  // "jail", or "plain" without mediation, then "work"
	envFolder = "MEDIATE_TEST_FOLDER" // the folder
	envUser   = "MEDIATE_TEST_USER"   // the workload's number if it is another user
	envShut   = "MEDIATE_TEST_SHUT"   // a directory outside that is read-only as well
	envWork   = "MEDIATE_TEST_WORK"   // the name of the workload, or "exec"
)

func TestMain(m *testing.M) {
	switch os.Getenv(envStage) {
	case "jail", "plain":
		runtime.LockOSThread()
		fmt.Fprintln(os.Stderr, "jail:", becomeJail())
		os.Exit(99)
	case "work":
		os.Exit(work())
	}
	hostfs.ClearUmask()
	os.Exit(m.Run())
}

// workloads are what runs inside.
func workloads() map[string]func(w *workload) {
	return map[string]func(w *workload){
		"semantics":      semantics,
		"steps":          stepsWork,
		"model":          modelWork,
		"bench":          benchWork,
		"threads":        threadsWork,
		"kills":          killsWork,
		"swaps":          swapsWork,
		"race":           raceWork,
		"tables":         tablesWork,
		"limits":         limitsWork,
		"umask":          umaskWork,
		"special":        specialWork,
		"reopened":       reopened,
		"switching":      switching,
		"attributesRace": attributesRace,
		"attributesOpen": attributesOpen,
		"makeTogether":   makeTogether,
		"openTogether":   openTogether,
		"lostOnProc":     lostOnProc,
		"keptWriters":    keptWriters,
		"victims":        victims,
		"opens":          opens,
		"executed":       executed,
		"deep":           deep,
		"flood":          flood,
		"procPaths":      procPaths,
		"nested":         nested,
	}
}

// workload is the workload's side.
type workload struct {
	args []string
	in   *bufio.Reader
}

// say tells the test something: a line on standard output.
func (w *workload) say(format string, args ...any) {
	_, _ = os.Stdout.WriteString(fmt.Sprintf(format, args...) + "\n")
}

// hear waits for a line of the test's.
func (w *workload) hear() string {
	line, err := w.in.ReadString('\n')
	if err != nil {
		os.Exit(98)
	}
	return strings.TrimSuffix(line, "\n")
}

func work() int {
	runtime.LockOSThread()
	f := workloads()[os.Getenv(envWork)]
	if f == nil {
		fmt.Fprintln(os.Stderr, "no workload", os.Getenv(envWork))
		return 97
	}
	if err := os.Chdir(os.Getenv(envFolder)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 96
	}
	f(&workload{args: os.Args[1:], in: bufio.NewReader(os.Stdin)})
	return 0
}

// fdSocket is the socket to the test, fdMount the folder's mount for another user.
const (
	fdSocket = 3
	fdMount  = 4
)

func becomeJail() error {
	folder := os.Getenv(envFolder)
	must := func(what string, err error) {
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
			os.Exit(99)
		}
	}
	must("private", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must("proc", unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""))
	if os.Getenv(envUser) == "" {
		must("bind", unix.Mount(folder, folder, "", unix.MS_BIND|unix.MS_REC, ""))
	} else {
		must("mounting the folder", unix.MoveMount(fdMount, "", unix.AT_FDCWD, folder, unix.MOVE_MOUNT_F_EMPTY_PATH))
		unix.CloseOnExec(fdMount)
	}
	if os.Getenv(envStage) == "plain" {
		must("capabilities", dropCapabilities())
		return executeWork(folder)
	}
	must("read-only", unix.MountSetattr(unix.AT_FDCWD, folder, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID}))
	if out := os.Getenv(envShut); out != "" {
		must("bind", unix.Mount(out, out, "", unix.MS_BIND, ""))
		must("read-only", unix.MountSetattr(unix.AT_FDCWD, out, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}))
	}
	view, err := unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must("view", err)
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must("root", err)
	must("capabilities", dropCapabilities())
	must("no new privileges", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	must("landlock", guardGrants("/proc", "/dev/null", "/dev/pts", filepath.Join(filepath.Dir(folder), "out")))
	filter := testFilter()
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return errno
	}
	if err := unix.Sendmsg(fdSocket, []byte{1}, unix.UnixRights(int(fd), view, root), nil, 0); err != nil {
		return err
	}
	_ = unix.Close(int(fd))
	var b [1]byte
	if n, err := unix.Read(fdSocket, b[:]); n != 1 {
		return errors.Join(errors.New("the test does not serve"), err)
	}
	unix.CloseOnExec(fdSocket)
	return executeWork(folder)
}

// guardGrants lets files be opened for writing below dirs only: elsewhere the server does
// it, and no descriptor on the host's mount can be opened again. The folder may lie in /dev/shm, so all
// of /dev would be too much.
func guardGrants(dirs ...string) error {
	const access = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_REFER
	handled := uint64(access)
	rules, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&handled)), 8, 0)
	if errno != 0 {
		return errno
	}
	for _, dir := range dirs {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		allowed := uint64(access)
		if dir == "/dev/null" {
			allowed &^= unix.LANDLOCK_ACCESS_FS_REFER // of directories only
		}
		rule := unix.LandlockPathBeneathAttr{Allowed_access: allowed, Parent_fd: int32(fd)}
		_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, rules, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
		_ = unix.Close(fd)
		if errno != 0 {
			return errno
		}
	}
	_, _, errno = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0)
	_ = unix.Close(int(rules))
	if errno != 0 {
		return errno
	}
	return nil
}

func executeWork(folder string) error {
	if err := os.Setenv(envStage, "work"); err != nil {
		return err
	}
	env := os.Environ()
	if os.Getenv(envWork) == "exec" {
		path, err := exec.LookPath(os.Args[1])
		if err != nil {
			return err
		}
		if err := os.Chdir(folder); err != nil {
			return err
		}
		return syscall.Exec(path, os.Args[1:], env)
	}
	return syscall.Exec("/proc/self/exe", os.Args, env)
}

func dropCapabilities() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has, none [2]unix.CapUserData
	if err := unix.Capget(&hdr, &has[0]); err != nil || has == none {
		return err
	}
	for i := uintptr(0); i <= unix.CAP_CHECKPOINT_RESTORE; i++ {
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, i, 0, 0, 0)
	}
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, 1|1<<1|1<<2|1<<3, 0, 0, 0); err != nil {
		return err
	}
	if uid, err := strconv.Atoi(os.Getenv(envUser)); err == nil {
		if err := errors.Join(unix.Setgroups(nil), unix.Setresgid(uid, uid, uid), unix.Setresuid(uid, uid, uid)); err != nil {
			return err
		}
	}
	return unix.Capset(&hdr, &none[0])
}

// notifiedCall are the calls of the package's table: the argument that is tested, or -1, and
// the bits.
type notifiedCall struct {
	nr   uint32
	arg  int
	bits uint32
}

func notifiedCalls() []notifiedCall {
	calls := []notifiedCall{{unix.SYS_OPENAT, 2, mutating}, {unix.SYS_FACCESSAT, 2, unix.W_OK}, {unix.SYS_FACCESSAT2, 2, unix.W_OK}}
	for _, nr := range []uint32{
		unix.SYS_TRUNCATE, unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_SYMLINKAT, unix.SYS_LINKAT,
		unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2,
		unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR,
		sysSetxattrat, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, sysRemovexattrat,
		unix.SYS_STATFS, unix.SYS_FSTATFS, unix.SYS_BIND, unix.SYS_UMASK,
	} {
		calls = append(calls, notifiedCall{nr, -1, 0})
	}
	return append(calls, oldCalls()...)
}

func testFilter() (p []unix.SockFilter) {
	add := func(code uint16, k uint32, jt, jf uint8) {
		p = append(p, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
	}
	const load, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_RET | unix.BPF_K
	const jeq, jset = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	add(load, 0, 0, 0)
	for _, c := range notifiedCalls() {
		if c.arg < 0 {
			add(jeq, c.nr, 0, 1)
			add(ret, unix.SECCOMP_RET_USER_NOTIF, 0, 0)
			continue
		}
		add(jeq, c.nr, 0, 4)
		add(load, 16+8*uint32(c.arg), 0, 0)
		add(jset, c.bits, 0, 1)
		add(ret, unix.SECCOMP_RET_USER_NOTIF, 0, 0)
		add(ret, unix.SECCOMP_RET_ALLOW, 0, 0)
	}
	add(ret, unix.SECCOMP_RET_ALLOW, 0, 0)
	return p
}

// jail is a folder and its server.
type jail struct {
	t      testing.TB
	base   string // has the folder and what is outside
	folder string
	out    string // what is outside
	uid    int    // of the workload, if it is another user than we; only as root
	shut   string // out if the workload may not change it
	// covered says that something may be mounted below the folder: see Folder.Bare.
	covered bool
	hooks   *recorder

	undo    string // the undo log's directory, for a real log instead of hooks
	session *direct.Session

	o      vfs.Options
	server *Server
	f      *Folder
}

// newJail makes a folder.
func newJail(t testing.TB) *jail {
	t.Helper()
	base := t.TempDir()
	check(t, os.Chmod(filepath.Dir(base), 0o755))
	j := &jail{t: t, base: base, folder: filepath.Join(base, "folder"), out: filepath.Join(base, "out"), hooks: &recorder{}}
	for _, d := range []string{j.folder, j.out} {
		check(t, os.Mkdir(d, 0o755))
	}
	j.o.Hooks = j.hooks
	return j
}

// inside is a running workload.
type inside struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	err *bytes.Buffer
}

// start starts a workload of the test program, or with the name "exec" a program.
func (j *jail) start(name string, args ...string) *inside {
	t := j.t
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(pair[0])
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	defer theirs.Close()
	in := j.command("jail", name, args...)
	if in.cmd.ExtraFiles == nil {
		in.cmd.ExtraFiles = []*os.File{nil}
	}
	in.cmd.ExtraFiles[0] = theirs
	check(t, in.cmd.Start())
	theirs.Close()
	var buf [1]byte
	oob := make([]byte, unix.CmsgSpace(3*4))
	_, n, _, _, err := unix.Recvmsg(pair[0], buf[:], oob, unix.MSG_CMSG_CLOEXEC)
	check(t, err)
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	check(t, err)
	if len(msgs) != 1 {
		_ = in.cmd.Wait()
		require.Missing(t, "user namespaces and seccomp notifications", strings.TrimSpace(in.err.String()))
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	check(t, err)
	j.serve(os.NewFile(uintptr(fds[0]), "listener"), os.NewFile(uintptr(fds[1]), j.folder), os.NewFile(uintptr(fds[2]), "/"))
	_, err = unix.Write(pair[0], []byte{1})
	check(t, err)
	return in
}

// native starts the workload on a folder that is mounted writable, without a filter.
func (j *jail) native(name string, args ...string) *inside {
	j.t.Helper()
	in := j.command("plain", name, args...)
	check(j.t, in.cmd.Start())
	return in
}

func (j *jail) command(stage, name string, args ...string) *inside {
	in := &inside{t: j.t, cmd: exec.Command("/proc/self/exe", args...)}
	user := ""
	if j.uid != 0 {
		user = strconv.Itoa(j.uid)
	}
	in.cmd.Env = append(os.Environ(), envUser+"="+user, envShut+"="+j.shut, envStage+"="+stage, envFolder+"="+j.folder, envWork+"="+name)
	uid, gid := os.Geteuid(), os.Getegid()
	in.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP},
	}
	if j.uid != 0 {
		everybody := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: math.MaxUint32}}
		in.cmd.SysProcAttr.UidMappings, in.cmd.SysProcAttr.GidMappings = everybody, everybody
		in.cmd.SysProcAttr.GidMappingsEnableSetgroups = true
		mount := j.mapped()
		j.t.Cleanup(func() { mount.Close() })
		in.cmd.ExtraFiles = []*os.File{nil, mount}
	}
	in.pipes()
	return in
}

func (in *inside) pipes() {
	in.err = &bytes.Buffer{}
	in.cmd.Stderr = in.err
	w, err := in.cmd.StdinPipe()
	check(in.t, err)
	r, err := in.cmd.StdoutPipe()
	check(in.t, err)
	in.in, in.out = w, bufio.NewReader(r)
	in.t.Cleanup(func() {
		if in.cmd.ProcessState == nil && in.cmd.Process != nil {
			_ = in.cmd.Process.Kill()
			_ = in.cmd.Wait()
		}
	})
}

func (j *jail) serve(l, view, root *os.File) {
	t := j.t
	t.Helper()
	uid, gid := os.Geteuid(), os.Getegid()
	if j.uid != 0 {
		uid, gid = j.uid, j.uid
		j.o.Owner = &vfs.Owner{UID: uint32(uid), GID: uint32(gid)}
	}
	logger := slog.New(slog.NewTextHandler(testWriter{t}, nil))
	server := New(Options{Logger: logger})
	j.server = server
	add := func(o vfs.Options) (_ fsbridge.Bridge, err error) {
		o.Logger = logger
		var grants *os.File
		if j.uid != 0 {
			grants = j.mapped()
		}
		j.f, err = server.Add(view, grants, o)
		if err == nil && !j.covered {
			j.f.Bare()
		}
		return j.f, err
	}
	var closed func() error
	if j.undo != "" {
		var err error
		j.session, err = direct.Open(t.Context(), direct.Options{Dir: j.folder, Undo: j.undo, Owner: j.o.Owner, Serve: add})
		check(t, err)
		closed = j.session.Close
	} else {
		r, err := hostfs.OpenRoot(j.folder)
		check(t, err)
		j.o.Root = r
		_, err = add(j.o)
		check(t, err)
		closed = r.Close
	}
	check(t, server.Serve(Guest{Listener: l, Root: root, UID: uint32(uid), GID: uint32(gid)}))
	t.Cleanup(func() {
		check(t, server.Close())
		<-server.Done()
		check(t, closed())
	})
}

// mapped is a mount of the folder in which root and the workload have changed places.
func (j *jail) mapped() *os.File {
	t := j.t
	t.Helper()
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: j.uid, Size: 1}, {ContainerID: j.uid, HostID: 0, Size: 1}}
	cmd := exec.Command("sleep", "100")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids}
	check(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", cmd.Process.Pid))
	check(t, err)
	defer ns.Close()
	fd, err := unix.OpenTree(unix.AT_FDCWD, j.folder, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	check(t, err)
	check(t, unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd())}))
	return os.NewFile(uintptr(fd), "mount")
}

// hear waits for a line of the workload's.
func (in *inside) hear() string {
	in.t.Helper()
	line, err := in.out.ReadString('\n')
	if err != nil {
		_ = in.cmd.Wait()
		in.t.Fatalf("the workload ended: %v, %s", err, in.err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (in *inside) say(line string) {
	in.t.Helper()
	_, err := io.WriteString(in.in, line+"\n")
	check(in.t, err)
}

// finish returns all that the workload still says, and its status.
func (in *inside) finish() (string, error) {
	in.in.Close()
	out, err := io.ReadAll(in.out)
	if werr := in.cmd.Wait(); err == nil && werr != nil {
		err = fmt.Errorf("%w: %s", werr, in.err)
	}
	return string(out), err
}

// ok is finish for a workload that must succeed.
func (in *inside) ok() string {
	in.t.Helper()
	out, err := in.finish()
	if err != nil {
		in.t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// sh runs a shell script inside.
func (j *jail) sh(script string) string {
	j.t.Helper()
	return j.start("exec", "sh", "-c", script).ok()
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// recorder is an Interceptor that notes what passes, and asks gate, if set, what to
// do.
type recorder struct {
	guard fsbridge.Guard
	gate  func(op *fsbridge.Op) error

	mu   sync.Mutex
	seen []string
	open int
}

func (r *recorder) Begin(op *fsbridge.Op) (fsbridge.Ticket, error) {
	r.mu.Lock()
	gate := r.gate
	r.mu.Unlock()
	if gate != nil {
		if err := gate(op); err != nil {
			return fsbridge.Ticket{}, err
		}
	}
	object := op.Dir
	if object == nil {
		object = op.Node
	}
	ticket := r.guard.Enter(object.ID.Ino)
	if err := op.Validate(ticket.Epoch); err != nil {
		r.guard.Exit(ticket)
		return fsbridge.Ticket{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, strings.TrimSpace(op.Kind.String()+" "+op.Name))
	r.open++
	return ticket, nil
}

func (r *recorder) End(ticket fsbridge.Ticket, op *fsbridge.Op, created *fsbridge.Object, err error) {
	r.guard.Exit(ticket)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
}

// set sets the gate while others ask.
func (r *recorder) set(gate func(op *fsbridge.Op) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate = gate
}

// begun returns how many operations were begun and have not ended.
func (r *recorder) begun() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}

// take returns what was seen since the last call.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.seen
	r.seen = nil
	return s
}
