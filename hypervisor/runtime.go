package hypervisor

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// Runtime starts guests of one kind. It is safe for concurrent use.
type Runtime interface {
	// Name is the word of --isolation: "jail", "landlock", "vm" or "none".
	Name() string

	// Probe returns nil if a guest can be started here, else an error wrapping
	// [ErrUnavailable] that says what to do. It changes nothing.
	Probe(ctx context.Context) error

	// Start brings up a guest and returns when it takes commands. ctx bounds
	// the start only. On error nothing is left behind.
	Start(ctx context.Context, cfg Config) (Guest, error)
}

// Preparer is a [Runtime] that can begin with what Start needs before it is known what
// Start is asked for.
type Preparer interface {
	// Prepare begins in the background. It is called when there will be a Start.
	Prepare()
}

// Wiper is a [Runtime] whose guests leave something for the next.
type Wiper interface {
	// Wipe throws that away. It is called while no guest runs.
	Wipe(ctx context.Context) error
}

// Mediator is a [Runtime] whose guests may have the mediated bridge.
type Mediator interface {
	// Mediates returns why a guest with these folders cannot have it, or nil. It changes nothing.
	Mediates(folders ...string) error
}

// TransportKind says how a bridge talks to the kernel that mounts it.
type TransportKind uint8

// The transports.
const (
	_                 TransportKind = iota
	TransportFUSE                   // File is an open, mounted /dev/fuse
	TransportVhost                  // File is a connected vhost-user socket
	TransportP9                     // Stream speaks 9P2000.L
	TransportMediated               // File is the folder, O_PATH, as the guest sees it; see [Config.Mediate]
)

// Transport is a connection on which a bridge serves one working folder.
type Transport struct {
	Kind TransportKind
	// File or Stream, the other is nil.
	File   *os.File
	Stream io.ReadWriteCloser
	// Grants, with TransportMediated, is a writable mount of the folder that shows the
	// owners that the guest's view shows; nil if the host's own mount does. It belongs
	// to whoever gets File.
	Grants *os.File
	// Bare, with TransportMediated, says that in the guest's view nothing is mounted below the
	// folder.
	Bare bool
	// UID and GID are the host-side ids that the workload's requests carry, so
	// that the bridge can show it the files as its own.
	UID, GID uint32
	// Alone says that the guest's kernel has no other ids for the folder's mount than these.
	Alone bool
	// HostPID translates the number of a thread, as requests carry it, to the
	// host's. The error wraps [os.ErrProcessDone] if there is no such thread any
	// more. Nil: they are the same. It is safe for concurrent use and slow.
	HostPID func(pid uint32) (uint32, error)
	// Hide are paths, relative to the folder, that the bridge must refuse:
	// secrets that the guest cannot keep from the workload.
	Hide []string
	// Passages are paths below the folder at which something else is mounted, and Open those that the
	// view shows from the start: what a gate (see [Config.Gate]) does not ask about. They are absolute.
	Passages, Open []string
	// Lower says that an overlay lies over the folder: it does not bear that a name becomes another
	// object.
	Lower bool
	// Promote has the guest's view show a directory below the folder without the bridge from now on, read-only. dir is
	// the directory itself, O_PATH, and path its path, absolute and clean. When the bridge tells the kernel that the name is another one, or refuses
	// it, that ends. Nil: it cannot. It is safe for concurrent use; it waits for the bridge to answer look-ups.
	Promote func(path string, dir int) error
	// Drop makes the guest forget what it caches of its folders, and Sync write
	// back what is dirty; both return when that was done. Nil: the transport
	// itself can do that. They are safe for concurrent use.
	Drop, Sync func(ctx context.Context) error
	// Wake has the guest set the modification times of files, by their paths relative to the folder, to
	// mtime, nanoseconds since 1970, so that who watches them inside hears of an edit from outside: the
	// bridge sets nothing then. Nil: nobody does, or nobody needs to. It is safe for concurrent use.
	Wake func(ctx context.Context, mtime int64, paths []string) error
}

// Bridge says how a guest of the jail reaches its folders: the word of --bridge.
type Bridge string

// The bridges of a jail.
const (
	// BridgeAuto is the mediated bridge where it works and shows all that FUSE does, else FUSE.
	BridgeAuto Bridge = "auto"
	// BridgeMediated is a read-only mount of the folder itself; the system calls that
	// would change it are answered by this program.
	BridgeMediated Bridge = "mediated"
	// BridgeFUSE is a file system that this program serves.
	BridgeFUSE Bridge = "fuse"
)

// Mediation is what answers a guest's system calls need to know of it.
type Mediation struct {
	// Listener is the seccomp user notification descriptor of everything inside.
	Listener *os.File
	// Root is the guest's root directory, O_PATH. All processes inside have it.
	Root *os.File
	// UID and GID are the host-side ids of the workload.
	UID, GID uint32
	// Unmounted says that the folders are no mounts of their own, and the rest no
	// read-only ones: what keeps the guest from changing them is Landlock.
	Unmounted bool
	// Own is, with Unmounted, the one directory in which the guest may change
	// everything, free of symlinks.
	Own string
	// Ways are directories inside, O_PATH, to which the way leads through gates (see [Config.Gate]): the kernel lets nobody from outside
	// through. Their names are their paths inside.
	Ways []*os.File
	// Overlays are the paths inside, free of symlinks, of overlays that do not lie over gates. The guest may change everything in them, but the kernel renames
	// no directory there that the host has.
	Overlays []string
	// Shared says that the guest's sockets are in this program's network namespace: connections are answered as [Config].Network decides, and with Datagrams
	// each datagram that can name where it goes.
	Shared, Datagrams bool
}

// Share is one working folder of the guest.
type Share struct {
	// HostPath is the folder on the host, absolute and clean. GuestPath is
	// where the guest sees it; the jail uses the same path.
	HostPath, GuestPath string
	ReadOnly            bool

	// Serve is called once by Start when the transport is there; it takes
	// ownership of the file, starts serving and returns without waiting for the
	// end. An error aborts Start.
	Serve func(t Transport) error
}

// Bytes writes a limit for people.
func Bytes(n int64) string {
	for _, u := range []struct {
		suffix string
		factor int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.factor && n%u.factor == 0 {
			return fmt.Sprintf("%d %s", n/u.factor, u.suffix)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// Config is what a guest is made of. A runtime ignores what it does not have: [Features] says what that is, and [Choose], which comes before, refuses it.
type Config struct {
	SessionID string
	Shares    []Share
	// Hostname inside; empty means "sandbox".
	Hostname string
	Jail
	// Opened are directories in the gates that nobody needs to be asked about.
	Opened []string
	// Gate makes what serves a gate, read-only. Nil: nothing does, which is enough to explain a view.
	Gate func(dir string) Share
	// UID and GID that the workload has, as the host numbers them, or -1 to let
	// the runtime choose; [Transport] says what it chose.
	UID, GID int
	// Places are what can be written beside the folders.
	Places Places
	// Limits are kept as well as the machine allows; what cannot be is a warning in [Guest.Facts].
	Limits Limits
	// Bridge chooses how a jail's folders are served; empty is BridgeFUSE. Other
	// runtimes ignore it.
	Bridge Bridge
	// Mediate is called once by Start after every [Share.Serve] if the transports are
	// [TransportMediated]. It takes the files over, starts answering and returns. An
	// error aborts Start. If it is nil, Bridge is BridgeFUSE.
	Mediate func(m Mediation) error
	// Inside is called at most once, on its own goroutine, with a listener at which
	// programs inside ask for steps of their own. They are as hostile as the guest. It
	// returns when the listener is closed, which the runtime does when the guest ends.
	// Nil: they cannot ask.
	Inside func(l net.Listener)
	// Agents are those that programs inside find, by name.
	Agents map[string]Agent
	// Network decides what the guest may reach; nil: nothing, it has a loopback
	// interface alone. Runtimes that cannot see to that return [ErrNetwork]. It stays
	// the caller's.
	Network *policy.Engine
	// Variables are in the environment of each command, in place of what it brings of those names.
	Variables []string
	// Listens returns where a program inside listens at a TCP port of this program's own loopback, for guests in its network namespace; false: none does, or somebody else. It
	// is asked while the guest runs.
	Listens func(port uint16) (at netip.AddrPort, ok bool)
}

// InPod tells whether the guest is to be in this program's own network namespace.
func (c Config) InPod() bool { return c.Network != nil && c.Network.Mode().InPod() }

// StepsVariable names, inside, the socket of [Config].Inside.
const StepsVariable = "SANDBOX_STEPS"

// AgentVariable names, inside, where programs find the agent of that name.
func AgentVariable(agent string) string {
	return map[string]string{"ssh": "SSH_AUTH_SOCK", "gpg": "GNUPGHOME"}[agent]
}

// Agent keeps keys outside.
type Agent struct {
	// Serve is called as [Config].Inside is, with the listener at which programs inside find it.
	Serve func(l net.Listener)
	// Files are what programs inside read beside it, by name, in the directory that [AgentVariable] names: public keys. Only gpg has one.
	Files map[string]string
}

// Guest is a running isolated place. Methods are safe for concurrent use.
type Guest interface {
	// Exec starts a command and returns when it runs, or an error wrapping
	// [*StartError] when the command cannot be started (126, 127).
	Exec(ctx context.Context, c Command) (Process, error)

	// RollbackNotify tells programs inside that a step was rolled back.
	RollbackNotify(stepID int64) error

	// Facts describes the guest for people: pid, kernel, namespaces, limits.
	Facts() map[string]string

	// Done is closed when the guest has ended; Err then tells why, nil after
	// Stop.
	Done() <-chan struct{}
	Err() error

	// Stop ends all commands and the guest, and returns when nothing is left
	// of either. It may be called more than once.
	Stop(ctx context.Context) error
}

// Pauser is a [Guest] that can stand still as a whole.
type Pauser interface {
	// Pause stops it, and Resume lets it go on.
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
}

// ProcessCounter is a [Guest] that knows how many processes its commands have left.
type ProcessCounter interface {
	// Processes returns how many are alive that could still write; 0 is certain.
	Processes() (int, error)
}

// Speaker is a [Guest] with a console.
type Speaker interface {
	// Console returns the last lines on it, the newest last: few, short, and without control
	// characters. What they say is up to the guest.
	Console() []string
}

// Dialer is a [Guest] whose own loopback can be connected to.
type Dialer interface {
	// Dial connects to a TCP port of it, as a program inside would. It is safe for
	// concurrent use. The other end is as hostile as the guest.
	Dial(ctx context.Context, port uint16) (net.Conn, error)
}

// Owner is a [Guest] that can tell which of its processes has a socket.
type Owner interface {
	// SocketOwner returns the process, as the host numbers it, that sends from the address; protocol
	// is "tcp" or "udp". It is for people, slow, and safe for concurrent use.
	SocketOwner(protocol string, source netip.AddrPort) (pid int, ok bool)
}

// Unwired is a [Guest] that may have no network, and knows who wanted one all the same.
type Unwired interface {
	// Unreached is how many connections and lookups there were so far for which there was no network; 0 if there is one.
	Unreached() uint64
}

// Concealing is a [Guest] in which programs miss what is hidden from them, and can make it anew.
type Concealing interface {
	// Remade are the hidden paths at which there is something inside all the same: programs have made it. It is safe for concurrent use.
	Remade() []string
	// Conceals returns the hidden path that an absolute path of the host is, or lies in: there is something on the host, and inside there is not. It is empty if
	// none is. Readable says whether commands could read it if it were shown. It is safe for concurrent use, and looks at the host.
	Conceals(path string) (hidden string, readable bool)
}

// Spender is a [Guest] that knows how much time of processors its programs have had.
type Spender interface {
	// CPUTime is how much that is since the guest started, with programs that have ended; false: it cannot be told. It is safe for concurrent use.
	CPUTime() (time.Duration, bool)
}

// Housed is a [Guest] whose processes are processes of this host.
type Housed interface {
	// First is the process, as the host numbers it, below which all of them are.
	First() int
}

// Command is one program to run.
type Command struct {
	// ID is unique in the guest's life. Step is the step that the command runs in, for
	// the log.
	ID, Step int64
	Argv     []string
	// Env is the whole environment, as "K=V"; nil lets the runtime choose.
	Env []string
	// Dir is the working directory as the guest sees it.
	Dir string

	// Stdin, Stdout and Stderr are given to the command as they are where the
	// runtime can (jail), else copied. A nil Stdin reads as empty. They stay
	// owned by the caller, who keeps them open until the command has ended: what copies reads and writes them as long. What would lead a command out of a view is refused (directories, devices, terminals).
	Stdin, Stdout, Stderr *os.File

	// Further are given to the command besides, where the runtime passes descriptors. They stay owned by the caller, and what would
	// lead out of a view is refused, as above, and files that are hidden.
	Further []Descriptor

	// Ignored are the signals that are ignored when the command starts, of SIGHUP and SIGINT.
	Ignored []int

	// TTY asks for a pseudo-terminal of this size, which becomes the command's
	// controlling terminal; [Process.Terminal] is its other end.
	TTY *TTY

	// Own has the guest's own program run in place of one that is looked for, with the rights of a command: Argv are its arguments, which hypervisor/paths knows. Env is ignored then.
	Own bool

	// Limits are those of who asks for the command, where they are others than this process's; nil: as the runtime's first process has them. Runtimes with a
	// kernel of their own ignore them.
	Limits *ProcessLimits
}

// ProcessLimits are what a process may use of the machine.
type ProcessLimits struct {
	// Nice is how nice the process is, if that is more than 0.
	Nice int
	List []ProcessLimit
}

// ProcessLimit is one limit, as of setrlimit.
type ProcessLimit struct {
	Resource   int
	Soft, Hard uint64
}

// Descriptor is an open file, and the number that it has for a command: 3 or more.
type Descriptor struct {
	Number int
	File   *os.File
}

// Numbers are those of descriptors, and Files what they are of.
func Numbers(list []Descriptor) (numbers []int) {
	for _, d := range list {
		numbers = append(numbers, d.Number)
	}
	return numbers
}

// Files are the open files of descriptors.
func Files(list []Descriptor) (files []*os.File) {
	for _, d := range list {
		files = append(files, d.File)
	}
	return files
}

// TTY describes a pseudo-terminal.
type TTY struct {
	Rows, Cols uint16
	// Term is the value of TERM.
	Term string
	// Of says which of stdin, stdout and stderr the pseudo-terminal is. The others are the command's files, as without one; the zero value is all
	// three. A runtime that copies the files takes these instead of a pseudo-terminal that is not all of them.
	Of [3]bool
	// Stopped is called with the signal when the command has been stopped (Ctrl-Z); whoever gives it continues the command with the signal CONT. It must
	// not block, and may be called before Exec has returned. If it is nil, the keys of the terminal stop nothing. A runtime without a process of
	// its own inside ignores it.
	Stopped func(signal int)
}

// Streams says of stdin, stdout and stderr which are a pseudo-terminal. Nil: none.
func (t *TTY) Streams() [3]bool {
	switch {
	case t == nil:
		return [3]bool{}
	case t.Of == [3]bool{}:
		return [3]bool{true, true, true}
	}
	return t.Of
}

// Partial reports whether some of them are and others are not. Nil is not.
func (t *TTY) Partial() bool { s := t.Streams(); return t != nil && (!s[0] || !s[1] || !s[2]) }

// ExitStatus is how a command ended.
type ExitStatus struct {
	// Code is the exit status, or 128+n when signal n ended the command.
	Code int
	// Signal is n, or 0.
	Signal int
	// Duration from start to end, by the guest's reckoning.
	Duration time.Duration
	// Limit says which limit has ended a process, or refused one, while the command ran; empty
	// if none did, or if that is not known.
	Limit string
	// Alone: no process was left that could still write. False if unknown.
	Alone bool
}

// Process is a running command. Methods are safe for concurrent use.
type Process interface {
	// PID is the number of its first process, as programs inside see it; 0 if that is not known.
	PID() int

	// Terminal is the host's end of the pseudo-terminal, or nil. The Process
	// owns it and closes it after Wait has returned.
	Terminal() *os.File

	// Signal sends a signal to the command's whole process group.
	Signal(sig int) error

	// Resize sets the terminal's size.
	Resize(rows, cols uint16) error

	// Cancel ends the command and everything it started in its session: TERM,
	// then KILL after grace.
	Cancel(grace time.Duration) error

	// Wait returns when the command has ended. An error means that the guest
	// ended or lost the command.
	Wait(ctx context.Context) (ExitStatus, error)
}
