package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/e2b"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/launch"
	"github.com/codeagent/sandbox/messages/lexical"
)

// The roles of [E2B].
const (
	RoleAPI  = "api"
	RoleEnvd = "envd"
)

// E2B says how the protocol e2b is served: what the flags of 'sandbox serve' say.
type E2B struct {
	Role      string
	Token     string // a file
	Dir       string // of the sandboxes; empty: beside this program's own in the user's state directory
	Domain    string
	Templates []string // NAME=DIR
	Runtime   Runtime
}

// listenUsual is where a role listens unless something else is asked for.
func listenUsual(role string) string {
	if role == RoleEnvd {
		return "127.0.0.1:49983"
	}
	return "127.0.0.1:3000"
}

// RunE2B serves sandboxes over HTTP until ctx ends, or INT, TERM or HUP come. Then it closes the sessions: their commands end, and their steps are closed.
func RunE2B(ctx context.Context, o Options, e E2B) (err error) {
	s := &e2bServer{Options: o, e: e}
	s.walls.Reads = o.HTTP.Files()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop)                                                     // a second signal ends us at once
	announce, err := console.NewLogger(o.Stderr, "info", o.Launcher.Conf.Log.Format) // whatever the level
	if err != nil {
		return err
	}
	if o.Launcher.Conf.Classifier.AutoApprove != "all" {
		return console.Usagef("classifier.auto_approve: commands of the protocol e2b are not asked about; leave it out")
	}
	opts, err := s.options()
	if err != nil {
		return err
	}
	l, err := s.listen(&opts)
	if err != nil {
		return err
	}
	beside, err := e.Runtime.listen(o)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer func() { err = errors.Join(err, beside.close()) }()
	launch.Restrain(o.Launcher.Log)
	closeMetrics, err := s.figures.serve(ctx, o)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer func() { err = errors.Join(err, closeMetrics()) }()
	if e.Role == RoleEnvd {
		if opts.Live, opts.Kept, err = s.pod(ctx); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	server, err := e2b.New(opts)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if err := beside.serve(ctx, server, opts.Live); err != nil {
		return errors.Join(err, l.Close())
	}
	if o.Launcher.Busybox(ctx) {
		announce.Warn("E2B's SDK runs commands by /bin/bash, and machines here have busybox alone: 'sandbox guest build --rootfs debian' makes a system with bash for them", "component", "e2b")
	}
	announce.Info("listening", "component", "e2b", "address", l.Addr().String(), "role", e.Role)
	return server.Serve(ctx, l)
}

// e2bServer is one run.
type e2bServer struct {
	Options
	e    E2B
	root string

	figures figures
	walls   launch.Walls
}

// options are the server's, as far as the flags say them.
func (s *e2bServer) options() (o e2b.Options, err error) {
	o = e2b.Options{Start: s.start, Forget: s.forget, Environ: plain(s.Env), Version: s.Version, Logger: s.Launcher.Log, Domain: s.e.Domain}
	switch s.e.Role {
	case RoleAPI:
		if s.e.Runtime.Listen != "" || s.e.Runtime.Open {
			return o, console.Usagef("--runtime-listen and --runtime-open are for --role envd: they serve one sandbox")
		}
		if s.e.Token != "" {
			return o, console.Usagef("--access-token is for --role envd: with --role api each sandbox has a token of its own")
		}
		if len(s.Launcher.Dirs) > 0 {
			return o, console.Usagef("--working-dir: each sandbox has a folder of its own; --role envd serves one folder")
		}
	case RoleEnvd:
		if s.HTTP.Keys != "" || s.e.Dir != "" || s.e.Domain != "" || len(s.e.Templates) > 0 {
			return o, console.Usagef("--keys, --sandboxes, --domain and --template are for --role api: with --role envd there is one sandbox")
		}
		if err := s.e.Runtime.check(s.e.Token); err != nil {
			return o, err
		}
		if s.e.Token != "" {
			o.Token, err = e2b.OpenToken(s.e.Token)
		}
		return o, err
	default:
		return o, console.Usagef("--role: %q is not one of api, envd", s.e.Role)
	}
	if o.Templates, err = templates(s.e.Templates); err != nil {
		return o, err
	}
	if s.root, err = s.directory(); err != nil {
		return o, err
	}
	o.Root = s.root
	return o, nil
}

// directory is where sandboxes are. It is made if it is not there.
func (s *e2bServer) directory() (string, error) {
	dir := s.e.Dir
	if dir == "" {
		state, err := actors.StateDir()
		if err != nil {
			return "", err
		}
		dir = state + "-e2b" // not in it: that is where undo logs are, and no folder may be among them
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	return dir, err
}

// templates reads NAME=DIR.
func templates(list []string) (map[string]string, error) {
	all := map[string]string{}
	for _, text := range list {
		name, dir, ok := strings.Cut(text, "=")
		if !ok || name == "" || dir == "" || !wire.ValidName(name) {
			return nil, console.Usagef("--template %q: write NAME=DIR; a name has letters, digits, '.', '_' and '-'", text)
		}
		dir, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			return nil, console.Usagef("--template %s: %s is no directory", name, dir)
		}
		all[name] = dir
	}
	return all, nil
}

// listen listens where the flags say, with keys and TLS if they do. In a pod others reach the address: there a token is what lets clients in.
func (s *e2bServer) listen(o *e2b.Options) (net.Listener, error) {
	settings := s.HTTP
	if settings.Address == "" {
		settings.Address = listenUsual(s.e.Role)
	}
	settings.Tokens, settings.Connections = s.e.Role == RoleEnvd, e2b.MaxConnections
	opened, err := settings.Open(s.Launcher.Log)
	if err != nil {
		return nil, err
	}
	o.Keys, o.Remote = opened.Keys, !opened.Access.Loopback
	if at, ok := opened.Listener.Addr().(*net.TCPAddr); ok && o.Domain == "" && s.e.Role == RoleAPI && !o.Remote {
		o.Domain = fmt.Sprintf("localhost:%d", at.Port)
	}
	return opened.Listener, nil
}

// kept are the variables of the server that commands in sandboxes have: nothing of who runs it.
func kept(name string) bool {
	switch name {
	case "PATH", "LANG", "LANGUAGE", "TZ", "USER", "LOGNAME", "SHELL":
		return true
	}
	return strings.HasPrefix(name, "LC_")
}

// plain are those of env.
func plain(env []string) (out []string) {
	for _, kv := range env {
		if name, _, _ := strings.Cut(kv, "="); kept(name) {
			out = append(out, kv)
		}
	}
	return out
}

// launcher is the one for sessions: as the flags and the files say. Nothing outside runs what is in the folder, so that writes to git's configuration and the like wait for nobody, unless a flag or the organisation says so.
func (s *e2bServer) launcher() (launch.Launcher, error) {
	b := *s.Launcher
	b.Conf = s.Base.Clone()
	const protect = "safeguards.protect"
	if s.Base.LockOf(protect) == nil {
		if err := b.Conf.SetRequest(protect, false); err != nil {
			return b, err
		}
	}
	return b, s.Flags.Apply(b.Conf, func(string) bool { return true })
}

// start starts the session of a sandbox: as the flags and the files say, but for the folder. No project's file is read: what is in the folder is the client's.
func (s *e2bServer) start(ctx context.Context, r e2b.StartRequest) (api.Live, error) {
	b, err := s.launcher()
	if err != nil {
		return nil, err
	}
	if r.Offline {
		if err := b.Conf.SetRequest("network.policy", "disabled"); err != nil {
			return nil, err
		}
		for _, key := range []string{"network.inject", "network.allow"} {
			if err := b.Conf.SetRequest(key, []any{}); err != nil {
				return nil, err
			}
		}
		b.AllowHost = false
	}
	dirs, err := b.Validate([]config.Directory{{Path: r.Folder}})
	if err != nil {
		return nil, err
	}
	cfg, err := b.SessionConfigFor(dirs)
	if err != nil {
		return nil, err
	}
	return s.launch(ctx, cfg)
}

// forget removes what is kept for a folder of a sandbox.
func (s *e2bServer) forget(ctx context.Context, folder, undoDir string) error {
	if undoDir == "" {
		dirs, err := s.Launcher.Validate([]config.Directory{{Path: folder}})
		if err != nil {
			return err
		}
		undoDir = dirs[0].UndoDir
	}
	return actors.Forget(ctx, folder, undoDir)
}

// hides tells whether a path is hidden already.
func hides(list []string, path string) bool {
	for _, h := range list {
		if lexical.Within(path, h) {
			return true
		}
	}
	return false
}

// pod starts the only session. kept is a directory for what belongs to its folder.
func (s *e2bServer) pod(ctx context.Context) (live api.Live, kept string, err error) {
	b, err := s.launcher()
	if err != nil {
		return nil, "", err
	}
	cfg, err := b.SessionConfig()
	if err != nil {
		return nil, "", err
	}
	if kept, err = actors.FrontendDir(cfg.Directories[0].Path); err == nil {
		err = os.MkdirAll(kept, 0o700)
	}
	if err != nil { // a session needs no such place, if its log has another one
		s.Launcher.Log.Warn("the variables that POST /init gives are not kept", "component", "e2b", "err", err)
		kept = ""
	}
	live, err = s.launch(ctx, cfg)
	return live, kept, err
}

// conceal hides from a session what is the server's: other sandboxes, and secrets.
func (s *e2bServer) conceal(cfg *api.Config) error {
	for _, path := range []string{s.root, s.HTTP.Keys, s.e.Token, s.HTTP.CertificateKey} {
		if path == "" {
			continue
		}
		abs, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		if !hides(cfg.Hide, abs) {
			cfg.Hide = append(cfg.Hide, abs)
		}
	}
	return nil
}

func (s *e2bServer) launch(ctx context.Context, cfg api.Config) (api.Live, error) {
	if err := s.conceal(&cfg); err != nil {
		return nil, err
	}
	live, err := s.figures.start(ctx, &s.walls, cfg, s.Launcher.Log)
	if err != nil {
		return nil, err
	}
	s.Launcher.Notify(live, cfg)
	return live, nil
}
