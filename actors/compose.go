package actors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/actors/command"
	"github.com/codeagent/sandbox/actors/directory"
	"github.com/codeagent/sandbox/actors/frontend/control"
	"github.com/codeagent/sandbox/actors/interceptor"
	"github.com/codeagent/sandbox/actors/machine"
	"github.com/codeagent/sandbox/actors/session"
	"github.com/codeagent/sandbox/actors/step"
	"github.com/codeagent/sandbox/actors/watcher"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
)

// path is the place of an actor in the tree, which is also its id.
func (s *Session) path(name string) string {
	if name == "" {
		return "session/" + s.id
	}
	return "session/" + s.id + "/" + name
}

// to returns how to tell the session's actor of that name something.
func (s *Session) to(name string) messages.Tell {
	id := s.path(name)
	return func(m any) { s.system.Root.Send(s.system.NewLocalPID(id), m) }
}

// ref is how to ask the session's actor of that name.
func (s *Session) ref(name string) messages.Ref {
	if s.system == nil {
		return messages.Ref{}
	}
	return messages.Ref{Tell: s.to(name), Stopped: s.stopped}
}

// ask sends a request to an actor and waits for its answer.
func ask[T any](ctx context.Context, s *Session, name string, msg func(*messages.Reply[T]) any) (T, error) {
	return messages.Request(ctx, s.ref(name), msg)
}

func (s *Session) props(name string, strategy *supervision.Strategy, onPanic func(any), produce func(*supervision.Node) actor.Actor) *actor.Props {
	node := s.tree.Node(s.path(name))
	var panicLog io.Writer
	if s.cfg.PanicLog != nil {
		panicLog = s.cfg.PanicLog
	}
	return supervision.Props(supervision.Spec{
		Node: node, Clock: s.clock, Strategy: strategy, Logger: s.cfg.Logger, PanicLog: panicLog, OnPanic: onPanic,
		New: func() actor.Actor { return produce(node) },
	}, messages.ErrCrashed)
}

var _ step.Directory = directory.Step{}

// spawn makes the session's tree and waits until every log has recovered.
func (s *Session) spawn(ctx context.Context) error {
	s.system = supervision.NewSystem(s.cfg.Logger)
	s.steps = step.Steps{Ref: s.ref("steps")}
	if s.cfg.Runtime != nil {
		s.owned = command.Commands{Ref: s.ref("commands")}
	}
	strategy := supervision.NewStrategy(s.clock, supervision.Backoff{}, s.cfg.Logger, s.gaveUp)
	child := func(name string, produce func(*supervision.Node) actor.Actor) session.Child {
		return session.Child{Name: name, Props: s.props(name, strategy, nil, produce)}
	}
	var children []session.Child
	var stepDirs []step.Directory
	for _, w := range s.dirs {
		children = append(children, s.directory(w, strategy))
		if w.Hooks != nil {
			stepDirs = append(stepDirs, directory.Step{Directory: w})
		}
	}
	children = append(children,
		child("audit", func(n *supervision.Node) actor.Actor {
			return approval.NewAudit(approval.AuditOptions{Path: s.auditFile(), Session: s.id, Opening: s.auditOpening, Logger: s.cfg.Logger, Node: n})
		}),
		child("safeguard", func(n *supervision.Node) actor.Actor { return approval.NewSafeguard(s.safeguardOptions(n)) }),
		s.frontends(strategy),
		child("steps", func(n *supervision.Node) actor.Actor {
			return step.New(step.Options{
				Directories: stepDirs, Idle: s.cfg.Timing.QuiescenceIdle, Max: s.cfg.Timing.QuiescenceMax,
				Clock: s.clock, Logger: s.cfg.Logger, Node: n,
				Commands: s.cfg.Commands, Opened: s.stepOpened, Joined: s.stepJoined, Running: s.board.SetRunning, Ended: s.board.StepEnded,
				Holder: &s.holder,
			})
		}),
	)
	if s.cfg.Runtime != nil {
		s.tree.Node(s.path("machine")).SetLive(func(n *supervision.Snapshot) {
			if n.Facts == nil {
				n.Facts = map[string]string{}
			}
			maps.Copy(n.Facts, s.machineFacts())
		})
		children = append(children, child("machine", func(n *supervision.Node) actor.Actor {
			return machine.New(machine.Options{
				Runtime: s.cfg.Runtime, Config: s.guestConfig(), Logger: s.cfg.Logger, Node: n, Slot: s.slot, Down: s.machineDown,
			})
		}), child("commands", func(n *supervision.Node) actor.Actor {
			return command.New(command.Options{Table: &s.table, Clock: s.clock, Logger: s.cfg.Logger, Node: n})
		}))
	}
	root := s.props("", strategy, nil, func(n *supervision.Node) actor.Actor {
		return session.New(session.Options{
			Children: children, Board: s.board, Node: n, Logger: s.cfg.Logger, Configured: s.configured,
			Changed: func(st session.State, _ string) {
				s.bus.Emit(api.Event{Type: api.EventSessionState, Message: string(st)})
			},
		})
	})
	var err error
	if s.root, err = s.system.Root.Copy().WithGuardian(strategy).SpawnNamed(root, s.path("")); err != nil {
		return fmt.Errorf("start session %s: %w", s.id, err)
	}
	return s.ready(ctx)
}

// frontends describes the parent of connections.
func (s *Session) frontends(strategy *supervision.Strategy) session.Child {
	const name = "frontends"
	return session.Child{Name: name, Props: s.props(name, strategy, nil, func(n *supervision.Node) actor.Actor {
		n.SetState("active")
		return session.NewFrontends(session.FrontendsOptions{
			Spawn: func(child string, crashed func(any), produce func(*supervision.Node) actor.Actor) *actor.Props {
				return s.props(name+"/"+child, strategy, crashed, produce)
			},
			Forget: func(child string) { s.tree.Forget(s.path(name + "/" + child)) },
			Count:  &s.count, Logger: s.cfg.Logger,
		})
	})}
}

// ready waits until the actors are there and the logs have recovered.
func (s *Session) ready(ctx context.Context) error {
	ready := func(r *messages.Reply[session.State]) any { return &session.Ready{Reply: r} }
	if _, err := ask(ctx, s, "", ready); err != nil {
		return err
	}
	for i, w := range s.dirs {
		if _, err := ask(ctx, s, folder(i, ""), func(r *messages.Reply[struct{}]) any { return &session.GroupReady{Reply: r} }); err != nil {
			return err
		}
		if err := w.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// folder is the name of one of a folder's actors, or of their parent.
func folder(index int, actor string) string {
	return path.Join("directory", strconv.Itoa(index), actor)
}

// directory describes the actors of one folder.
func (s *Session) directory(w *directory.Directory, strategy *supervision.Strategy) session.Child {
	name := folder(w.Index, "")
	s.tree.Node(s.path(name)).SetFact("path", w.Config.Path)
	var children []session.Child
	child := func(kind string, onPanic func(any), produce func() actor.Actor) {
		props := s.props(folder(w.Index, kind), strategy, onPanic, func(*supervision.Node) actor.Actor { return produce() })
		children = append(children, session.Child{Name: kind, Props: props})
	}
	if w.Log != nil {
		w.Intercept()
		child("interceptor", w.Hooks.OnPanic, func() actor.Actor { return interceptor.NewActor(w.Hooks) })
	}
	if s.cfg.Runtime != nil {
		if w.WatchFor(); w.Watch != nil {
			child("watcher", nil, func() actor.Actor { return watcher.NewActor(w.Watch) })
		}
	}
	return session.Child{Name: name, Props: s.props(name, strategy, nil, func(n *supervision.Node) actor.Actor {
		n.SetState("active")
		return session.NewGroup(children, s.cfg.Logger)
	})}
}

// gaveUp is told which actor will not be restarted any more.
func (s *Session) gaveUp(id string, reason any) {
	msg := fmt.Sprintf("%s crashed too often and was stopped: %v", strings.TrimPrefix(id, s.path("")+"/"), reason)
	for _, w := range s.dirs {
		if w.Hooks != nil && id == s.path(folder(w.Index, "interceptor")) {
			w.Hooks.GiveUp(msg)
			return
		}
	}
	s.bus.Emit(api.Event{Type: api.EventError, Message: msg})
}

// auditFile is in the first folder's undo directory.
func (s *Session) auditFile() string {
	for _, w := range s.dirs {
		if w.Log != nil {
			return filepath.Join(w.Config.UndoDir, approval.AuditFile)
		}
	}
	return ""
}

// auditOpening says under what this session decides.
func (s *Session) auditOpening() approval.AuditSession {
	o := approval.AuditSession{At: s.clock.Now(), Network: string(s.cfg.Network.Mode), User: os.Getuid(), PID: os.Getpid()}
	if s.cfg.Runtime != nil {
		o.Isolation = s.cfg.Runtime.Name()
	}
	for _, w := range s.dirs {
		o.Directories = append(o.Directories, w.Config.Path)
	}
	return o
}

func (s *Session) safeguardOptions(n *supervision.Node) approval.SafeguardOptions {
	record := s.to("audit")
	return approval.SafeguardOptions{
		Timeout: func() time.Duration { return s.safeguards().Timeout }, Attended: s.attended, Clock: s.clock, Logger: s.cfg.Logger, Node: n, IDs: &s.sgIDs,
		Count: s.board.SetPending,
		Triggered: func(p approval.Pending) {
			if s.holdsMachine(p.Ask.Kind) {
				s.to("machine")(&machine.Hold{ID: p.ID})
			}
			pub := publicPending(p)
			s.answers.asked(pub)
			s.bus.Emit(api.Event{Type: api.EventSafeguardTriggered, Directory: pub.Directory, Step: pub.Step, Origin: s.asker(p.Ask.From, pub.Step), Caller: api.Origin(p.Ask.From), Message: pub.Message, Paths: pub.SamplePaths, Pending: &pub})
		},
		Decided: func(d messages.Decision) {
			s.nobody.heard(d.By, s.clock.Now())
			if path, ok := strings.CutPrefix(d.Message, "write "); ok && d.By == messages.ByNobody { // nothing else says so
				s.tellRefused(d.Message, d.Message, "write", path)
			}
			if s.holdsMachine(d.Kind) {
				s.to("machine")(&machine.Release{ID: d.ID})
			}
			from := s.asker(d.From, stepID(d.Step))
			d.Frontend, d.RequestID = from.Frontend, from.RequestID
			record(&approval.AuditRecord{Decision: d})
			s.answers.decided(d)
			s.bus.Emit(api.Event{
				Type: api.EventSafeguardDecided, Directory: d.Directory, Step: stepID(d.Step), Origin: from, Caller: api.Origin(d.From), Message: d.Decision + " by " + d.By,
				Decision: &api.DecideRequest{ID: d.ID, Allow: d.Decision == "allow", By: d.By, Scope: d.Scope},
			})
		},
	}
}

// holdsMachine tells whether the guest is paused for a question of that kind:
// one about what it does, not about what it shall begin. A read holds only who reads, and the use of a key only who asks for it.
func (s *Session) holdsMachine(kind string) bool {
	return s.cfg.Runtime != nil && kind != messages.KindCommand && kind != messages.KindGate && kind != messages.KindUse
}

func (s *Session) guestConfig() hypervisor.Config {
	c := hypervisor.Config{SessionID: s.id, Jail: s.cfg.Jail, UID: -1, GID: -1, Network: s.net.engine, Bridge: s.cfg.Bridge, Places: s.cfg.Places, Limits: s.cfg.Resources, Inside: s.inside.serve}
	c.Listens, c.Variables = s.mediation.Listens, s.net.listening.Load().variables()
	c.Hide = slices.Clone(c.Hide)
	// POSIX metadata is kept apart from the files, and a limit counts each write: only a bridge's own file system does that.
	if !s.cfg.PosixMetadata && s.cfg.FolderBytes == 0 {
		c.Mediate = s.mediation.Serve
	}
	if s.cfg.RuntimeDir != "" {
		c.Hide = append(c.Hide, s.cfg.RuntimeDir)
	}
	if dir, err := directory.StateDir(); err == nil {
		c.Hide = append(c.Hide, dir) // other sessions' logs
	}
	for _, w := range s.dirs {
		c.Shares = append(c.Shares, w.Share())
		if w.Log != nil {
			c.Hide = append(c.Hide, w.Config.UndoDir)
		}
	}
	c.Agents = s.relays()
	if c.Gate = s.gate; len(c.Gates) > 0 || c.Dynamic {
		c.Opened = s.opened()
	}
	return c
}

// machineDown fails the command that the guest took with it.
func (s *Session) machineDown(err error) {
	s.mu.Lock()
	closing := s.closing
	s.mu.Unlock()
	if closing {
		return
	}
	reason := fmt.Sprintf("the runtime ended: %v", err)
	s.bus.Emit(api.Event{
		Type: api.EventError, Message: reason + "; the history can still be used", Err: fmt.Errorf("%w: %w", messages.ErrNoMachine, err),
	})
	s.to("steps")(&messages.StepFail{Outcome: messages.OutcomeFailed, Reason: reason})
	s.to("")(&session.Move{To: session.Failed, Reason: reason})
}

// shutdown is Close, once.
func (s *Session) shutdown(ctx context.Context, server *control.Server) error {
	var errs []error
	note := func(err error) {
		if err != nil && !errors.Is(err, messages.ErrStopped) {
			errs = append(errs, err)
		}
	}
	s.published.close()
	s.net.listening.Load().close()
	s.allowance.Close()
	if s.root != nil {
		note(s.move(ctx, session.Stopping, "close"))
		if s.net.engine != nil {
			s.net.engine.Close() // what waits to be allowed is denied
		}
		if s.cfg.Runtime != nil {
			_, err := ask(ctx, s, "machine", func(r *messages.Reply[struct{}]) any { return &machine.Stop{Context: ctx, Reply: r} })
			if note(err); err == nil {
				s.services.Close()
				s.owners.active.Wait()
			}
		}
		for _, w := range s.dirs {
			if w.Watch != nil { // not before: until here something inside may write
				w.Watch.Stop() // and close it once the kernel is through with that
			}
			note(w.Stop(ctx))
		}
		// Actors stop beside each other: what was decided must be written before.
		_, err := ask(ctx, s, "safeguard", func(r *messages.Reply[struct{}]) any { return &approval.ShutdownSafeguard{Reply: r} })
		note(err)
		_, err = ask(ctx, s, "audit", func(r *messages.Reply[struct{}]) any { return &approval.SyncAudit{Reply: r} })
		note(err)
		note(supervision.StopActor(ctx, s.system, s.root))
	}
	close(s.stopped)
	note(s.mediation.End(ctx))
	if server != nil {
		note(server.Close())
	}
	if s.cfg.RuntimeDir != "" {
		control.Unregister(s.cfg.RuntimeDir, s.id)
	}
	for _, w := range s.dirs {
		note(w.Close())
	}
	if s.system != nil {
		s.system.Shutdown()
	}
	s.bus.Close()
	return errors.Join(errs...)
}
