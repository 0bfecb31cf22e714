package escape

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/actors/api"
)

// unnamed are attempts at what no mount keeps away, since it has no path. KEY is the key of a segment, a queue and a set of
// semaphores of the host, which everybody may use; SEGMENT, QUEUE and SEMAPHORES are their numbers, POSIX is the name of a queue, and
// STRAY is the number of a descriptor of the supervisor.
var unnamed = []attempt{
	{name: "a shared memory segment by its key", script: "ATTACK shmget KEY"},
	{name: "a shared memory segment by its number", script: "ATTACK shmat SEGMENT"},
	{name: "the state of a shared memory segment", script: "ATTACK shmctl SEGMENT 2"},
	{name: "removing a shared memory segment", script: "ATTACK shmctl SEGMENT 0"},
	{name: "a message queue by its key", script: "ATTACK msgget KEY"},
	{name: "a message into a queue", script: "ATTACK msgsnd QUEUE"},
	{name: "a message from a queue", script: "ATTACK msgrcv QUEUE"},
	{name: "semaphores by their key", script: "ATTACK semget KEY"},
	{name: "a semaphore by its number", script: "ATTACK semop SEMAPHORES"},
	{name: "a POSIX message queue", script: "ATTACK mqopen POSIX"},
	{name: "a descriptor inherited by mistake", script: "ATTACK pread STRAY"},
	{name: "what such a descriptor leads to", script: "cat /proc/self/fd/STRAY || cat /proc/$$/fd/STRAY || cat /dev/fd/STRAY || cat /proc/*/fd/STRAY"},
}

// objects are those of the host that the attempts are after.
type objects struct {
	key, segment, queue, semaphores, stray int
	posix, secret                          string
	memory                                 []byte // of the segment
}

// everybody may read and write; nothing waits.
const everybody, noWait = 0o666, 0o4000

// made is what a call returns that must succeed.
//
//go:uintptrescapes
func made(t *testing.T, nr uintptr, a ...uintptr) int {
	t.Helper()
	n, err := direct(nr, a...)
	must(t, err)
	return n
}

func newObjects(t *testing.T) *objects {
	t.Helper()
	o := &objects{key: int(rand.Int32N(1<<30) + 1), posix: fmt.Sprint("escape-", os.Getpid()), secret: filepath.Join(t.TempDir(), "stray")}
	create := uintptr(unix.IPC_CREAT | unix.IPC_EXCL | everybody)
	o.segment = made(t, unix.SYS_SHMGET, uintptr(o.key), uintptr(len(treasure)), create)
	t.Cleanup(func() { made(t, unix.SYS_SHMCTL, uintptr(o.segment), unix.IPC_RMID) })
	var err error
	o.memory, err = unix.SysvShmAttach(o.segment, 0, 0)
	must(t, err)
	t.Cleanup(func() { must(t, unix.SysvShmDetach(o.memory)) })
	copy(o.memory, treasure)
	o.queue = made(t, unix.SYS_MSGGET, uintptr(o.key), create)
	t.Cleanup(func() { made(t, unix.SYS_MSGCTL, uintptr(o.queue), unix.IPC_RMID) })
	o.semaphores = made(t, unix.SYS_SEMGET, uintptr(o.key), 1, create)
	t.Cleanup(func() { made(t, unix.SYS_SEMCTL, uintptr(o.semaphores), 0, unix.IPC_RMID) })
	name, err := unix.BytePtrFromString(o.posix)
	must(t, err)
	posix := made(t, unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, everybody, 0)
	t.Cleanup(func() { made(t, unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name))); must(t, unix.Close(posix)) })
	put(t, o.secret, treasure)
	fd, err := unix.Open(o.secret, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	o.stray, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD, 200) // a number that nothing else inside has
	must(t, err)
	t.Cleanup(func() { must(t, unix.Close(o.stray)) })
	must(t, unix.Close(fd))
	must(t, attacks["msgsnd"]([]string{strconv.Itoa(o.queue)})) // so that there is something to receive
	return o
}

// attempts are those at the objects.
func (o *objects) attempts() (list []attempt) {
	vars := strings.NewReplacer("KEY", strconv.Itoa(o.key), "SEGMENT", strconv.Itoa(o.segment), "QUEUE", strconv.Itoa(o.queue),
		"SEMAPHORES", strconv.Itoa(o.semaphores), "POSIX", o.posix, "STRAY", strconv.Itoa(o.stray))
	for _, a := range unnamed {
		a.script = vars.Replace(a.script)
		list = append(list, a)
	}
	return list
}

// real checks that each attempt but the removal succeeds outside: a message is sent and received, and the semaphore is raised.
func (o *objects) real(t *testing.T, child int) {
	t.Helper()
	for _, a := range o.attempts() {
		words := strings.Fields(a.script)
		if words[0] == "ATTACK" && !strings.HasPrefix(a.name, "removing") {
			if err := attacks[words[1]](words[2:]); err != nil {
				t.Errorf("outside, %s: %v", a.name, err)
			}
		}
	}
	if to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", child, o.stray)); err != nil || to != o.secret {
		t.Errorf("a program of the supervisor has not inherited the descriptor: %q, %v", to, err)
	}
}

// unharmed checks that they are as real has left them.
func (o *objects) unharmed(t *testing.T) {
	t.Helper()
	if got := string(o.memory[:len(treasure)]); got != treasure {
		t.Errorf("the segment: %q", got)
	}
	queue := []string{strconv.Itoa(o.queue)}
	if first, second := attacks["msgrcv"](queue), attacks["msgrcv"](queue); first != nil || second != unix.ENOMSG {
		t.Errorf("the queue: %v, then %v", first, second)
	}
	const getValue = 12
	if n := made(t, unix.SYS_SEMCTL, uintptr(o.semaphores), 0, getValue); n != 1 {
		t.Errorf("the semaphore is %d", n)
	}
}

// TestUnnamed: shared memory, queues and semaphores of the host can be neither seen nor used inside, and no descriptor that the supervisor
// has left open is there, whatever keeps the workload in.
func TestUnnamed(t *testing.T) {
	everywhere(t, func(t *testing.T, change func(*api.Config)) {
		o := newObjects(t)
		p := newPrey(t, change)
		o.real(t, p.pid)
		p.attempt(t, o.attempts(), "")
		o.unharmed(t)
		p.unharmed(t)
	})
}

// direct makes a call as it is.
//
//go:uintptrescapes
func direct(nr uintptr, a ...uintptr) (int, error) {
	a = append(a, make([]uintptr, 6)...)
	n, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// posted is a message of a System V queue.
type posted struct {
	kind int
	text [8]byte
}

// object makes a call whose first argument is a number of the attack's.
func object(nr uintptr, rest ...uintptr) func([]string) error {
	return func(a []string) error {
		_, err := direct(nr, append([]uintptr{uintptr(number(a[0]))}, rest...)...)
		return err
	}
}

func attachSegment(a []string) error {
	memory, err := unix.SysvShmAttach(number(a[0]), 0, unix.SHM_RDONLY)
	if err != nil {
		return err
	}
	return unix.SysvShmDetach(memory)
}

func controlSegment(a []string) error {
	_, err := unix.SysvShmCtl(number(a[0]), number(a[1]), new(unix.SysvShmDesc))
	return err
}

func sendMessage(a []string) error {
	m := posted{kind: 1}
	_, err := direct(unix.SYS_MSGSND, uintptr(number(a[0])), uintptr(unsafe.Pointer(&m)), unsafe.Sizeof(m.text), noWait)
	return err
}

func receiveMessage(a []string) error {
	var m posted
	_, err := direct(unix.SYS_MSGRCV, uintptr(number(a[0])), uintptr(unsafe.Pointer(&m)), unsafe.Sizeof(m.text), 0, noWait)
	return err
}

func raiseSemaphore(a []string) error {
	raise := struct{ number, by, flags int16 }{by: 1, flags: noWait}
	_, err := direct(unix.SYS_SEMOP, uintptr(number(a[0])), uintptr(unsafe.Pointer(&raise)), 1)
	return err
}

func openPOSIXQueue(a []string) error {
	name, err := unix.BytePtrFromString(a[0])
	if err != nil {
		return err
	}
	fd, err := direct(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_RDWR|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func readDescriptor(a []string) error {
	b := make([]byte, len(treasure))
	n, err := unix.Pread(number(a[0]), b, 0)
	if err == nil && n == 0 {
		err = io.EOF
	}
	return err
}
