package serve

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/stdio"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/launch"
	"github.com/codeagent/sandbox/hypervisor"
)

// start is session.start: the request over the flags over the files. What the
// organisation has locked stays, and when folders were named on the command
// line a request chooses among those.
func (s *server) start(ctx context.Context, r stdio.StartRequest, note func(stdio.Notice)) (api.Live, error) {
	c := s.next
	if s.next = nil; c == nil {
		now := s.configure(r)
		c = &now
	}
	if c.err != nil {
		return nil, c.err
	}
	for _, n := range c.notes {
		note(n)
	}
	return s.run(ctx, c.cfg, c.conf)
}

// asked is what a session.start asks for, with remarks about what it does not get, or why there can be no such session.
type asked struct {
	cfg   api.Config
	conf  *config.Set
	notes []stdio.Notice
	err   error
}

func (s *server) configure(r stdio.StartRequest) (a asked) {
	a.err = a.fill(s, r)
	return a
}

func (a *asked) fill(s *server, r stdio.StartRequest) error {
	b := *s.Launcher
	b.Conf = s.Base.Clone()
	folders, err := s.Launcher.Folders(false)
	if err != nil {
		return err
	}
	if len(r.WorkingDirectories) > 0 {
		if folders, err = s.requested(folders, r.WorkingDirectories); err != nil {
			return err
		}
	}
	refuse := func(err error) error { return &stdio.Error{Code: stdio.InvalidField, Message: err.Error()} }
	if s.ConfigFile == "" {
		if err := b.Conf.AddProject(folders[0].Path); err != nil {
			return refuse(err)
		}
	}
	if err := s.Flags.Apply(b.Conf, func(string) bool { return true }); err != nil {
		return refuse(err)
	}
	if err := runtimeKnown(r.Isolation); err != nil {
		return err
	}
	for _, set := range settings(r) {
		if err := b.Conf.SetRequest(set.key, set.value); err != nil {
			return refuse(err)
		}
	}
	if err := requestNetwork(b.Conf, r); err != nil {
		return refuse(err)
	}
	b.Left = func(left hypervisor.Left) {
		if left.By == hypervisor.ByRequest {
			a.notes = append(a.notes, stdio.Notice{Code: stdio.NoticeNoEffect, Message: field(left.Ask) + ": " + left.Why, Field: field(left.Ask)})
			return
		}
		b.Remark("sandbox: " + console.Shown(left.String()))
	}
	dirs, err := b.Validate(folders)
	if err == nil {
		a.cfg, err = b.SessionConfigFor(dirs)
	}
	if refusal := (*hypervisor.Refusal)(nil); errors.As(err, &refusal) && refusal.By == hypervisor.ByRequest {
		return &stdio.Error{Code: stdio.Unsupported, Field: field(refusal.Ask), Message: refusal.Error()}
	}
	if console.IsUsage(err) {
		return refuse(err)
	}
	a.conf = b.Conf
	return err
}

// field is that of a session.start by which something is asked for.
func field(a hypervisor.Ask) string {
	name, _, _ := strings.Cut(a.Said, " ")
	return name
}

// requested are the folders of a request.
func (s *server) requested(given []config.Directory, want []stdio.WorkingDirectory) ([]config.Directory, error) {
	var out []config.Directory
	for i, w := range want {
		field := fmt.Sprintf("working_directories[%d]", i)
		if w.UndoDir != "" {
			if err := s.Base.Clone().SetRequest("undo.dir", w.UndoDir); err != nil {
				return nil, &stdio.Error{Code: stdio.InvalidField, Field: field + ".undo_dir", Message: field + ".undo_dir: " + err.Error()}
			}
			if !filepath.IsAbs(w.UndoDir) {
				return nil, &stdio.Error{Code: stdio.InvalidField, Field: field + ".undo_dir", Message: field + ".undo_dir: must be absolute"}
			}
		}
		if !filepath.IsAbs(w.Path) {
			return nil, &stdio.Error{Code: stdio.InvalidField, Field: field + ".path", Message: field + ".path: must be absolute"}
		}
		if err := config.CheckLabel(w.Label); err != nil {
			return nil, &stdio.Error{Code: stdio.InvalidField, Field: field + ".label", Message: field + ".label: " + err.Error()}
		}
		d := config.Directory{Path: w.Path, Label: w.Label, ReadOnly: w.Access == "read_only", UndoDir: w.UndoDir}
		if len(s.Launcher.Dirs) > 0 || s.Base.LockOf("directory") != nil {
			at := slices.IndexFunc(given, func(g config.Directory) bool { return launch.SameFolder(g.Path, w.Path) })
			if at < 0 {
				return nil, &stdio.Error{Code: stdio.InvalidWorkingDirectory, Field: field + ".path", Message: field + ".path: it is none of the folders that the program was started with"}
			}
			d.ReadOnly = d.ReadOnly || given[at].ReadOnly
		}
		out = append(out, d)
	}
	return out, nil
}

// runtimeKnown refuses a runtime that the protocol knows and this build has not.
func runtimeKnown(name string) error {
	var have []string
	for _, k := range config.Keys() {
		if k.Name == "isolation" {
			have = k.Enum
		}
	}
	if name == "" || slices.Contains(have, name) {
		return nil
	}
	return &stdio.Error{
		Code: stdio.Unavailable, Field: "isolation",
		Message: fmt.Sprintf("isolation: this build has no %q; leave isolation out, or ask for one of %s", name, strings.Join(have, ", ")),
	}
}

// requestNetwork sets what the request says of the network. A list of its
// own replaces the configured one.
func requestNetwork(conf *config.Set, r stdio.StartRequest) error {
	if r.NetworkPolicy != "" {
		if err := conf.SetRequest("network.policy", r.NetworkPolicy); err != nil {
			return err
		}
	}
	if r.NetworkAllow == nil {
		return nil
	}
	return conf.SetRequest("network.allow", items(r.NetworkAllow))
}

// items is a list as the TOML decoder would have it.
func items(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// setting is one key with its value as codeagent.toml would have it.
type setting struct {
	key   string
	value any
}

func settings(r stdio.StartRequest) (out []setting) {
	text := func(key, v string) {
		if v != "" {
			out = append(out, setting{key, v})
		}
	}
	text("isolation", r.Isolation)
	text("undo.barriers", r.BarrierPolicy)
	text("undo.symlinks", r.SymlinkPolicy)
	text("undo.durability", r.Durability)
	text("vm.mode", r.VMMode)
	put(&out, "undo.gitignore", r.Gitignore, func(v bool) any { return v })
	if l := r.UndoLimits; l != nil {
		put(&out, "undo.max_bytes", l.MaxLogSizeBytes, func(v int64) any { return v })
		put(&out, "undo.max_steps", l.MaxStepCount, func(v int) any { return int64(v) })
		put(&out, "undo.max_step_bytes", l.MaxSingleStepSizeBytes, func(v int64) any { return v })
		put(&out, "undo.max_age", l.MaxAgeSeconds, func(v int64) any { return (time.Duration(max(v, 0)) * time.Second).String() })
	}
	if g := r.Safeguards; g != nil {
		put(&out, "safeguards.deletes", g.DeleteThreshold, func(v int) any { return int64(v) })
		put(&out, "safeguards.overwrite_bytes", g.OverwriteThresholdBytes, func(v int64) any { return v })
		put(&out, "safeguards.rename_over", g.RenameOver, func(v bool) any { return v })
		put(&out, "safeguards.timeout", g.TimeoutSeconds, func(v float64) any { return time.Duration(v * float64(time.Second)).String() })
		put(&out, "safeguards.exempt", g.Exempt, func(v []string) any { return items(v) })
	}
	return out
}

func put[T any](out *[]setting, key string, v *T, as func(T) any) {
	if v != nil {
		*out = append(*out, setting{key, as(*v)})
	}
}
