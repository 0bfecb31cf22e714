package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/script"
)

// minimal are the devices of each jail.
var minimal = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// inDev are the devices of the jail's /dev: those of each jail, and those that it was given.
func (p *plan) inDev() []string {
	paths := slices.Clone(minimal)
	for _, d := range p.devices {
		paths = append(paths, d.Path)
	}
	return paths
}

// hiddenDir holds, while the view is made, what is bound over hidden files.
const hiddenDir = "/dev/.sandbox"

// queuesDir shows the message queues of the jail's ipc namespace.
const queuesDir = "/dev/mqueue"

const sealed = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// viewWriter writes how the view is made.
type viewWriter struct {
	*script.Writer
	plan   *plan
	setup  uintptr            // the descriptor of the socket to the supervisor
	fuse   []uintptr          // by share, until mounted
	bases  map[int]uintptr    // by share: the directory that a gate covers
	clones map[string]uintptr // detached trees, by their source
	sent   int                // shares handed over
	served int                // shares whose service was waited for
	files  int                // names used below hiddenDir
	staged int                // overlays
	made   []mount            // those of the plan, so far
}

// view turns this namespace's copy of the host's tree into the jail's view,
// in place: everything that exists becomes read-only, then the plan's mounts
// cover what must look different. Whoever lives in a child namespace cannot
// take a cover off.
func (v *viewWriter) view() {
	// First of all: what we do must not reach the host.
	v.Call("making the mounts private", unix.SYS_MOUNT, v.Text(""), v.Text("/"), v.Text(""), unix.MS_PRIVATE|unix.MS_REC, 0)
	v.takeSources()
	// A /proc of our pid namespace covers the host's while that is still as it was: a new one may not be less restricted.
	// Inside a container that covers parts of its /proc the kernel refuses it:
	// outer processes stay out of reach, but can be seen.
	proc := v.mount("mounting /proc", "proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	proc.May, proc.Note = unix.EPERM, true
	v.setattr("making the host's tree read-only (needs Linux 5.12)", script.Cwd, "/", unix.AT_RECURSIVE, sealed, 0)
	// Programs write to /proc/self.
	v.setattr("/proc", script.Cwd, "/proc", 0, 0, unix.MOUNT_ATTR_RDONLY).Unless = true
	for i := range v.plan.mounts {
		v.made = v.plan.mounts[:i]
		v.cover(&v.plan.mounts[i])
	}
	for _, m := range v.plan.mounts {
		if m.op == opOverlay && m.readOnly {
			v.setattr(overlayKey(&m), script.Cwd, m.path, 0, sealed, 0)
		}
	}
	for i := range v.files {
		v.Call("tidying up", unix.SYS_UNLINKAT, script.Cwd, v.Text(hiddenDir+"/"+strconv.Itoa(i+1)), 0)
	}
	v.Call("tidying up", unix.SYS_UNLINKAT, script.Cwd, v.Text(hiddenDir), unix.AT_REMOVEDIR)
	v.setattr("/dev", script.Cwd, "/dev", 0, unix.MOUNT_ATTR_RDONLY, 0)
	for _, way := range v.plan.ways {
		v.awaitServed(way)
		fd := v.Open(way, unix.SYS_OPENAT, script.Cwd, v.Text(way), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		v.Send(way, v.setup, wayByte, fd)
		v.Close(fd)
	}
}

// noPrivateProc is the warning for what view notes.
const noPrivateProc = "no private /proc: this machine's /proc is partly covered (are we in a container?); names of outer processes are visible inside"

func (v *viewWriter) mount(what, source, path, kind string, flags uintptr, options string) *script.Call {
	return v.Call(what, unix.SYS_MOUNT, v.Text(source), v.Text(path), v.Text(kind), flags, v.Text(options))
}

func (v *viewWriter) setattr(what string, dir uintptr, path string, flags uintptr, set, clr uint64) *script.Call {
	attr := v.Words(set, clr, 0, 0) // struct mount_attr
	return v.Call(what, unix.SYS_MOUNT_SETATTR, dir, v.Text(path), flags, attr, unix.MOUNT_ATTR_SIZE_VER0)
}

// takeSources opens what will not be reachable any more once the view is made.
func (v *viewWriter) takeSources() {
	v.fuse = make([]uintptr, v.plan.shares)
	for i := range v.fuse {
		if !v.plan.mediated || i >= v.plan.folders {
			v.fuse[i] = v.Open("opening /dev/fuse", unix.SYS_OPENAT, script.Cwd, v.Text("/dev/fuse"), unix.O_RDWR|unix.O_CLOEXEC)
		}
	}
	for _, d := range v.plan.inDev() {
		v.take(d, d)
	}
	v.stageMemory()
	defer v.unstageMemory()
	for _, m := range v.plan.mounts {
		switch {
		case m.promotes():
			v.bases[m.share] = v.Open(m.path, unix.SYS_OPENAT, script.Cwd, v.Text(m.path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
		case m.op == opBind:
			v.take(m.source, m.source)
		case m.op == opNoExec:
			v.take(noExecKey(&m), m.source)
		case m.op == opFolder && v.plan.mapped:
			// The supervisor sends them in this order.
			v.clones[folderKey(&m)] = v.Receive(m.path, v.setup)
		case m.op == opFolder:
			v.take(folderKey(&m), m.path)
		case m.op == opOverlay && !m.gate:
			v.stage(&m)
		case m.op == opWritable:
			v.take(writableKey(&m), m.path)
		}
	}
	for _, m := range v.plan.mounts {
		if m.op == opOverlay && m.gate { // it waits for a byte, before which nothing else may be there
			v.stage(&m)
		}
	}
}

// folderKey is the key of a folder's detached tree: the same path may be bound, too.
func folderKey(m *mount) string { return "folder " + m.path }

// writableKey is the key of the detached tree of what stays writable.
func writableKey(m *mount) string { return "writable " + m.path }

// noExecKey is the key of the detached tree of what is not executed.
func noExecKey(m *mount) string { return "noexec " + m.path }

// take clones the tree at path.
func (v *viewWriter) take(key, path string) {
	v.clones[key] = v.Open(path, unix.SYS_OPEN_TREE, script.Cwd, v.Text(path), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
}

// cover carries out m.
func (v *viewWriter) cover(m *mount) {
	what := fmt.Sprintf("%s %s", m.op, m.path)
	if m.served {
		v.awaitServed(what)
	}
	switch m.op {
	case opTmpfs:
		v.makeDirs(what, m.path)
		options := fmt.Sprintf("mode=%o", m.mode)
		if m.own {
			options += fmt.Sprintf(",uid=%d,gid=%d", v.plan.uid, v.plan.gid)
		}
		v.mount(what, "tmpfs", m.path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, v.sized(options))
	case opDir:
		v.makeDirs(what, m.path)
		if m.own {
			v.Call(what, unix.SYS_FCHOWNAT, script.Cwd, v.Text(m.path), uintptr(v.plan.uid), uintptr(v.plan.gid), 0)
		}
		v.Call(what, unix.SYS_FCHMODAT, script.Cwd, v.Text(m.path), uintptr(m.mode))
	case opSymlink:
		v.makeDirs(what, filepath.Dir(m.path))
		v.Call(what, unix.SYS_SYMLINKAT, v.Text(m.source), script.Cwd, v.Text(m.path))
	case opShare:
		v.share(what, m)
	case opFolder:
		// A mount of its own tells what lies in it from all else, as its number does.
		v.attach(what, folderKey(m), m.path, true, sealed)
	case opBind:
		v.attach(what, m.source, m.path, isDir(m.source), sealed)
	case opOverlay:
		v.attach(what, overlayKey(m), m.path, true, sealed&^unix.MOUNT_ATTR_RDONLY)
	case opWritable:
		v.attach(what, writableKey(m), m.path, isDir(m.source), sealed&^unix.MOUNT_ATTR_RDONLY)
	case opNoExec:
		v.attach(what, noExecKey(m), m.path, isDir(m.source), sealed|unix.MOUNT_ATTR_NOEXEC)
	case opHideDir:
		// What was removed since the plan was made needs no cover.
		v.mount(what, "tmpfs", m.path, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0,size=4k,nr_inodes=1").May = unix.ENOENT
	case opHideFile:
		v.replace(what, m.path, "", 0, unix.ENOENT)
	case opFile:
		if m.make {
			v.makeDirs(what, filepath.Dir(m.path))
			v.Call(what, unix.SYS_MKNODAT, script.Cwd, v.Text(m.path), unix.S_IFREG|0o644, 0).May = unix.EEXIST
		}
		v.replace(what, m.path, m.content, 0o444|uintptr(m.mode), 0)
	case opDev:
		v.dev(what)
	case opCgroup:
		v.mount(what, "cgroup2", m.path, "cgroup2", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "").May = unix.EPERM
	default:
		v.Err = errors.New(what + ": unknown operation")
	}
}

// makeDirs makes path and what is missing on the way. On a read-only file system
// the kernel says, too, of what is there that it exists. In a gate nothing can be made, and the kernel would ask the gate each time.
func (v *viewWriter) makeDirs(what, path string) {
	at := ""
	for _, name := range strings.Split(strings.Trim(path, "/"), "/") {
		at += "/" + name
		if in := innermost(v.made, at); in != nil && in.gate && in.readOnly {
			continue
		}
		v.Call(what, unix.SYS_MKDIRAT, script.Cwd, v.Text(at), 0o755).May = unix.EEXIST
	}
}

// share mounts a bridge and hands its descriptor to the supervisor, with a byte
// that says whose it is.
func (v *viewWriter) share(what string, m *mount) {
	v.makeDirs(what, m.path)
	flags := uintptr(0)
	if m.readOnly {
		flags |= unix.MS_RDONLY
	}
	if m.noExec {
		flags |= unix.MS_NOEXEC
	}
	v.fuseMount(what, m.path, m.share, flags)
}

func (v *viewWriter) fuseMount(what, at string, share int, flags uintptr) {
	fd := v.fuse[share]
	v.mount(what, "sandbox", at, "fuse.sandbox", flags|unix.MS_NOSUID|unix.MS_NODEV,
		fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,default_permissions,allow_other", fd, os.Geteuid(), os.Getegid()))
	v.sent++
	base, ok := v.bases[share]
	if ok {
		v.Send(what, v.setup, byte(share), fd, base)
		v.Close(base)
	} else {
		v.Send(what, v.setup, byte(share), fd)
	}
	v.Close(fd)
}

// awaitServed waits until the supervisor serves every share it was given: it
// sends a byte for each.
func (v *viewWriter) awaitServed(what string) {
	for ; v.served < v.sent; v.served++ {
		v.Call(what, unix.SYS_READ, v.setup, v.Buffer(), 1).Expect(1)
	}
}

// attach moves a detached tree to path, which is made if it is missing.
func (v *viewWriter) attach(what, source, path string, dir bool, attr uint64) {
	if dir {
		v.makeDirs(what, path)
	} else {
		v.makeDirs(what, filepath.Dir(path))
		v.Call(what, unix.SYS_MKNODAT, script.Cwd, v.Text(path), unix.S_IFREG|0o644, 0).May = unix.EEXIST
	}
	fd := v.clones[source]
	v.setattr(what, fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr, 0)
	v.Call(what, unix.SYS_MOVE_MOUNT, fd, v.Text(""), script.Cwd, v.Text(path), unix.MOVE_MOUNT_F_EMPTY_PATH)
	v.Close(fd)
}

// replace binds a file with the given content over path, and may fail with one
// error.
func (v *viewWriter) replace(what, path, content string, mode uintptr, may syscall.Errno) {
	v.files++
	src := hiddenDir + "/" + strconv.Itoa(v.files)
	fd := v.Open(what, unix.SYS_OPENAT, script.Cwd, v.Text(src), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, mode)
	if content != "" {
		v.Call(what, unix.SYS_WRITE, fd, v.Bytes([]byte(content)), uintptr(len(content))).Expect(uintptr(len(content)))
	}
	v.Close(fd)
	v.Call(what, unix.SYS_MOUNT, v.Text(src), v.Text(path), 0, unix.MS_BIND, 0).May = may
	if mode&0o111 != 0 {
		v.setattr(what, script.Cwd, path, 0, sealed, unix.MOUNT_ATTR_NOEXEC).May = may
		return
	}
	v.setattr(what, script.Cwd, path, 0, sealed|unix.MOUNT_ATTR_NOEXEC, 0).May = may
}

// devBytes is how much /dev holds: devices, and the files that lie over others.
func (v *viewWriter) devBytes() int {
	size := 64 << 10
	for _, m := range v.plan.mounts {
		if large := len(m.content) - 4<<10; large > 0 {
			size += large + 4<<10
		}
	}
	return size
}

// dev mounts the minimal /dev. It is made read-only after the last cover.
func (v *viewWriter) dev(what string) {
	const flags = unix.MS_NOSUID | unix.MS_NOEXEC
	v.mount(what, "tmpfs", "/dev", "tmpfs", flags|unix.MS_NODEV, "mode=0755,size="+strconv.Itoa(v.devBytes()))
	for _, d := range v.plan.inDev() {
		v.attach(d, d, d, false, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	}
	for _, d := range []string{"/dev/pts", "/dev/shm", queuesDir, hiddenDir} {
		v.Call(what, unix.SYS_MKDIRAT, script.Cwd, v.Text(d), 0o755)
	}
	// gid=5 is refused where that group is not mapped.
	v.mount(what+"/pts", "devpts", "/dev/pts", "devpts", flags, "newinstance,ptmxmode=0666,mode=0620")
	v.mount(what+"/shm", "tmpfs", "/dev/shm", "tmpfs", flags|unix.MS_NODEV, v.sized("mode=1777"))
	// What mq_open(3) makes, as files. A kernel may have none.
	v.mount(what+"/mqueue", "mqueue", queuesDir, "mqueue", flags|unix.MS_NODEV, "").May = unix.ENODEV
	for _, l := range [][2]string{
		{"ptmx", "pts/ptmx"}, {"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
	} {
		v.Call(what, unix.SYS_SYMLINKAT, v.Text(l[1]), script.Cwd, v.Text("/dev/"+l[0]))
	}
}
