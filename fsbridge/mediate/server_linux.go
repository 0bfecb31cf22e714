package mediate

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/mediate/internal/notify"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// Server answers the system calls of one guest. Methods are safe for concurrent use.
type Server struct {
	log     *slog.Logger
	outside func(pid int) bool // Options.Outside, or nil
	threads *callerTable
	figures figureCounter

	folders []*Folder // fixed when Serve is called

	guest    Guest
	listener notify.Listener
	near     notify.Near
	relay    notify.Relay
	root     rawInfo // of Guest.Root
	ways     wayList
	overlays []uint64 // mounts of the guest's overlays
	stop     int      // an eventfd: readable once the server is closed

	relocating sync.Mutex // see renameOverlaid

	bound   ownSockets
	kept    keptSockets
	awaited atomic.Int32 // callers that wait for the other end of a socket

	mu      sync.Mutex // of what follows
	serving bool
	closed  bool
	workers [maxWorkers]atomic.Pointer[worker] // written under mu
	hired   int
	idle    []*worker // that wait for their turn to lead, the last to come first
	leader  *worker
	held    map[*worker]bool // that wait for somebody's decision
	done    chan struct{}    // closed when the last worker has ended
	live    int

	resting atomic.Bool // the overseer waits for work
	rouse   chan struct{}
}

// New makes a server that answers nobody yet.
func New(o Options) *Server {
	s := &Server{log: o.Logger, outside: o.Outside, threads: newCallers(), stop: -1, held: make(map[*worker]bool),
		done: make(chan struct{}), rouse: make(chan struct{}, 1)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s
}

// Add adds a working folder, before [Server.Serve]. view is the folder as the guest sees it,
// O_PATH. Where it shows other owners than the host's mount, grants is a mount that shows the
// same and is writable: what is granted is opened there, so that a descriptor shows what
// the path does, and its owner may change the file's attributes; else it is nil. Both are taken
// over, also on error. The Folder is the folder's bridge.
func (s *Server) Add(view, grants *os.File, o vfs.Options) (*Folder, error) {
	f, err := newFolder(s, view, o)
	if err == nil && grants != nil {
		if err = f.grantOn(grants); err != nil {
			f.tree.Close()
		}
	}
	if err != nil {
		err = errors.Join(err, view.Close())
		if grants != nil {
			err = errors.Join(err, grants.Close())
		}
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving || s.closed {
		f.free()
		return nil, errors.New("mediate: the server serves already")
	}
	s.folders = append(s.folders, f)
	return f, nil
}

// Serve begins to answer and returns.
func (s *Server) Serve(g Guest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving || s.closed {
		return errors.Join(errors.New("mediate: the server serves already"), g.Close())
	}
	if err := s.prepare(g); err != nil {
		return errors.Join(err, g.Close())
	}
	s.serving, s.guest = true, g
	s.leader = s.hire()
	go s.oversee()
	return nil
}

func (s *Server) prepare(g Guest) (err error) {
	if s.listener, err = notify.New(int(g.Listener.Fd())); err != nil {
		return err
	}
	if errno := rawLook(int(g.Root.Fd()), rawEmpty, &s.root); errno != 0 {
		return fmt.Errorf("mediate: the guest's root: %w", errno)
	}
	for _, f := range s.folders {
		f.name()
	}
	if err := s.ways.Take(g.Ways); err != nil {
		return fmt.Errorf("mediate: %w", err)
	}
	if err := s.findOverlays(&g); err != nil {
		return err
	}
	for _, f := range s.folders {
		_, f.behind = s.ways.At(&rawInfo{ID: f.rootID, Mount: f.mount})
	}
	if s.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return fmt.Errorf("mediate: eventfd: %w", err)
	}
	return nil
}

// Close ends the service: calls that wait fail with ENOSYS. It does not wait for held
// operations.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shutDown()
}

// shutDown makes every worker end. The caller holds mu.
func (s *Server) shutDown() error {
	if s.closed {
		return nil
	}
	s.closed = true
	for _, f := range s.folders {
		f.tree.Refuse()
	}
	if !s.serving {
		s.free()
		close(s.done)
		return nil
	}
	for _, w := range s.idle {
		w.turn <- struct{}{}
	}
	s.idle = nil
	one := [8]byte{1}
	_, err := unix.Write(s.stop, one[:])
	return err
}

// Done is closed when the server was closed and the last call was answered.
func (s *Server) Done() <-chan struct{} { return s.done }

// free closes what is open. Nobody serves any more.
func (s *Server) free() {
	for _, f := range s.folders {
		f.free()
	}
	s.threads.Close()
	s.kept.close()
	if s.serving {
		_ = s.guest.Close()
		rawClose(s.stop)
	}
}

// Figures returns what the server has done.
func (s *Server) Figures() figures { return s.figures.Figures() }

// folder returns the folder that a directory of the guest's view lies in, or nil.
func (s *Server) folder(dir int, i *rawInfo) *Folder {
	for _, f := range s.folders {
		if f.mount == i.Mount && (!s.guest.Unmounted || f.holds(dir, i)) {
			return f
		}
	}
	return nil
}

// owner returns the folder in which an object without a name is, or nil: one that the
// guest has by a granted descriptor is on the host's mount. What the tree of the only
// folder knows is in it, where the folder is a mount.
func (s *Server) owner(obj int, i *rawInfo) *Folder {
	if f := s.folder(obj, i); f != nil {
		return f
	}
	if f := s.grantedOn(i); f != nil {
		return f
	}
	for _, f := range s.folders {
		if f.host != i.Mount {
			continue
		}
		if _, below := f.pathOf(obj); below {
			return f
		}
	}
	return nil
}

// grantedOn returns the folder that a file is in by the mount that its descriptor was granted on, or nil if
// that does not tell.
func (s *Server) grantedOn(i *rawInfo) *Folder {
	for _, f := range s.folders {
		if f.grants != nil && f.grantMount == i.Mount {
			return f
		}
	}
	if !s.guest.Unmounted && len(s.folders) == 1 && s.folders[0].host == i.Mount && s.folders[0].tree.NodeID(i.ID) != 0 {
		return s.folders[0]
	}
	return nil
}

// maxWorkers bounds the threads that answer, and so the calls that are held.
const maxWorkers = 512

// hire starts one more worker; the caller holds mu and makes it the leader.
func (s *Server) hire() *worker {
	w := &worker{s: s, turn: make(chan struct{}, 1)}
	w.call.s, w.call.worker, w.call.index = s, w, uint64(s.hired+1)
	w.call.waits, w.call.alive, w.call.waitsForAnswer = func() { s.handOver(w) }, w.call.valid, func() { s.hold(w.call.index) }
	s.workers[s.hired].Store(w)
	s.hired++
	s.live++
	go w.run()
	return w
}

// worker is one thread that answers.
type worker struct {
	s     *Server
	turn  chan struct{} // it leads now, or has to end
	woken time.Time     // when it was told so; read after turn

	// busy is odd while a notification is answered, and grows with each.
	busy atomic.Uint64
	call call

	alone int // looks in a row that found nobody else waiting; up to lonely each notification looks, then every eighth
}

// run answers until the server is closed. One worker at a time, the leader, waits for
// notifications: two would both be woken by each. A leader that is about to be busy
// for long makes another the leader (see handOver); one that has answered soon goes
// on, for to wake another takes longer than most answers.
func (w *worker) run() {
	s := w.s
	defer s.retire(w)
	if err := w.call.settle(); err != nil {
		s.log.Error("a thread that answers system calls cannot be made", "component", "fs_backend", "err", err)
		_ = s.Close()
		return
	}
	for s.lead(w) {
		if !s.await(w) { // nobody is left inside
			_ = s.Close()
			return
		}
	}
}

// settle makes the thread fit to act for the guest. The goroutine never gives it back.
func (c *call) settle() error {
	lockIdentity()
	err := unix.Unshare(unix.CLONE_FS) // a umask of its own
	if c.masks = err != nil && c.s.guest.Unmounted; err != nil && !c.masks {
		return fmt.Errorf("mediate: unshare: %w", err)
	}
	unix.Umask(0) // the program's is 0 anyway
	return c.identity.Take(c.s.guest.UID, c.s.guest.GID)
}

// lead returns when w is the leader, or false when the server is closed.
func (s *Server) lead(w *worker) bool {
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return false
	case s.leader == w:
		s.mu.Unlock()
		return true
	}
	s.idle = append(s.idle, w)
	s.mu.Unlock()
	w.call.stay.Leave()
	<-w.turn
	s.relay.Woken(time.Since(w.woken))
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed
}

// handOver makes another worker the leader if w is.
func (s *Server) handOver(w *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leader != w || s.closed {
		return
	}
	if last := len(s.idle) - 1; last >= 0 {
		s.leader = s.idle[last]
		s.idle = s.idle[:last]
		s.leader.woken = time.Now()
		s.leader.turn <- struct{}{}
		return
	}
	if s.hired < maxWorkers {
		s.leader = s.hire()
	}
}

// retire notes that a worker has ended.
func (s *Server) retire(w *worker) {
	w.call.release()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live--; s.live == 0 {
		s.free()
		close(s.done)
	}
}

// await waits for one notification and answers it. It returns false when there will be
// no more.
func (s *Server) await(w *worker) bool {
	fds := [2]unix.PollFd{{Fd: int32(s.listener.FD), Events: unix.POLLIN}, {Fd: int32(s.stop), Events: unix.POLLIN}}
	if _, err := unix.Poll(fds[:], -1); err != nil && err != syscall.EINTR {
		s.log.Error("waiting for system calls failed", "component", "fs_backend", "err", err)
		return false
	}
	switch {
	case fds[1].Revents != 0:
		return false
	case fds[0].Revents&unix.POLLIN == 0:
		return fds[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) == 0 // nobody is left inside
	}
	c := &w.call
	if errno := s.listener.Receive(&c.n); errno != 0 {
		return true // it was killed meanwhile
	}
	start := time.Now()
	c.stay.Received(c.n.PID, start)
	w.busy.Add(1)
	if s.resting.Load() {
		s.wakeOverseer()
	}
	if s.relay.Due() && (w.alone < lonely || w.busy.Load()%16 == 1) {
		w.alone++
		fds[0].Revents = 0
		if n, _ := unix.Poll(fds[:1], 0); n > 0 { // somebody else waits already
			w.alone = 0
			s.handOver(w)
		}
	}
	c.answer()
	w.busy.Add(1)
	s.figures.Answered(time.Since(start))
	return true
}

// How often the overseer looks.
const (
	overseeEvery  = 2 * time.Millisecond  // when a worker was busy for long, and at first
	overseeSeldom = 16 * time.Millisecond // when none was: each look wakes Go's scheduler, which takes the guest's processor
	aliveEvery    = 20 * time.Millisecond
	restAfter     = 12 // looks at which nothing was to be seen
	lonely        = 16 // see worker.alone
)

// oversee takes the lead from a worker that is busy for long, and finds out whether
// the callers of held operations are still alive.
func (s *Server) oversee() {
	wait := overseeEvery
	tick := time.NewTimer(wait)
	defer tick.Stop()
	var last uint64
	var lastLeader *worker
	var checked time.Time
	quiet := 0
	for {
		var now time.Time
		select {
		case <-s.done:
			return
		case now = <-tick.C:
		}
		s.mu.Lock()
		leader, held := s.leader, len(s.held)
		s.mu.Unlock()
		busy := leader.busy.Load()
		if wait = min(2*wait, overseeSeldom); busy%2 == 1 && busy == last && leader == lastLeader {
			s.handOver(leader)
			wait = overseeEvery
		}
		if held > 0 && now.Sub(checked) >= aliveEvery {
			s.checkHeld()
			checked = now
		}
		if busy == last && busy%2 == 0 && held == 0 {
			quiet++
		} else {
			quiet = 0
		}
		last, lastLeader = busy, leader
		if quiet >= restAfter {
			quiet, wait = 0, overseeEvery
			s.resting.Store(true)
			select {
			case <-s.done:
				return
			case <-s.rouse:
			}
		}
		tick.Reset(wait)
	}
}

func (s *Server) wakeOverseer() {
	if s.resting.Swap(false) {
		select {
		case s.rouse <- struct{}{}:
		default:
		}
	}
}

// checkHeld cancels the held operations whose callers were killed.
func (s *Server) checkHeld() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.held {
		if !s.listener.Valid(&w.call.n.ID) {
			w.call.cancelled()
			delete(s.held, w)
		}
	}
}

// hold notes that a worker's operation waits for somebody's decision: from any
// goroutine, and perhaps too late.
func (s *Server) hold(index uint64) {
	c := s.asked(index)
	if c == nil {
		return
	}
	s.mu.Lock()
	if c.asking {
		s.held[c.worker] = true
	}
	s.mu.Unlock()
	s.handOver(c.worker)
	s.wakeOverseer()
}

// asked returns the call that a request of a tree belongs to, or nil.
func (s *Server) asked(index uint64) *call {
	if index == 0 || index > maxWorkers {
		return nil
	}
	if w := s.workers[index-1].Load(); w != nil {
		return &w.call
	}
	return nil
}

// asks notes that a worker begins, or ceases, to wait for the Interceptor.
func (s *Server) asks(c *call, asking bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.asking = asking
	if !asking {
		delete(s.held, c.worker)
	}
}
