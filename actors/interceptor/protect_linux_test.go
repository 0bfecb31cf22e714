package interceptor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// repository is a folder with a repository, and with another one below it.
func repository() map[string]string {
	return map[string]string{
		"main.go": "package main", ".git/HEAD": "ref: x", ".git/config": "[core]", ".git/hooks/pre-commit": "#!/bin/sh", ".git/hooks/a.sample": "#",
		".git/modules/lib/config": "[core]", ".git/modules/logs/config": "[core]", ".git/worktrees/wt/commondir": "../..", ".git/worktrees/wt/HEAD": "ref: x", "module/.git": "gitdir: ../.git/modules/lib", ".git/refs/heads/config": "1", ".vscode/settings.json": "{}", ".envrc": "x",
		"sub/.git/config": "[core]", "sub/.git/hooks/x": "#", "sub/.envrc": "y", "sub/.vscode/settings.json": "{}", "evil/hooks/post-checkout": "#!", "evil/f": "x", "sub/code": "x",
		".github/hooks/x.json": "{}", ".github/workflows/x.yml": "", "shared.cfg": "", "tools/hooks/post-checkout": "#!",
	}
}

func protecting(o *Options) {
	o.Safeguards.Protect, o.Entry, o.Carries = true, approval.Entry, approval.Carries
	o.Targets = func(string) [][]string { return [][]string{{"tools", "hooks"}, {"shared.cfg"}} }
}

// What programs run from is not changed before somebody has decided, whatever the way.
func TestProtectedEntries(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(r *rig) error
		entry string
	}{
		"write":                 {func(r *rig) error { return r.fs.WriteAt(".git/config", []byte("x"), 0) }, ".git/config"},
		"append to a hook":      {func(r *rig) error { return r.fs.WriteAt(".git/hooks/pre-commit", []byte("x"), 9) }, ".git/hooks"},
		"truncate":              {func(r *rig) error { return r.fs.Truncate(".envrc", 0) }, ".envrc"},
		"mode":                  {func(r *rig) error { return r.fs.Chmod(".git/hooks/pre-commit", 0o755) }, ".git/hooks"},
		"a new hook":            {func(r *rig) error { return r.fs.WriteFile(".git/hooks/post-checkout", nil) }, ".git/hooks"},
		"a new file":            {func(r *rig) error { return r.fs.WriteFile(".bashrc", nil) }, ".bashrc"},
		"symlink":               {func(r *rig) error { return r.fs.Symlink("main.go", ".zshrc") }, ".zshrc"},
		"remove":                {func(r *rig) error { return r.fs.Unlink(".git/hooks/pre-commit") }, ".git/hooks"},
		"rename over it":        {func(r *rig) error { return r.fs.Rename("main.go", ".git/config", 0) }, ".git/config"},
		"rename away":           {func(r *rig) error { return r.fs.Rename(".git/config", "c", 0) }, ".git/config"},
		"exchange":              {func(r *rig) error { return r.fs.Rename(".envrc", "main.go", renameExchange) }, ".envrc"},
		"move git's away":       {func(r *rig) error { return r.fs.Rename(".git", "old", 0) }, ".git"},
		"exchange with git's":   {func(r *rig) error { return r.fs.Rename(".git", "evil", renameExchange) }, ".git"},
		"another exchange":      {func(r *rig) error { return r.fs.Rename("evil", ".git", renameExchange) }, ".git"},
		"link to it":            {func(r *rig) error { return r.fs.Link(".git/config", "c") }, ".git/config"},
		"link as it":            {func(r *rig) error { return r.fs.Link("main.go", ".claude") }, ".claude"},
		"of a submodule":        {func(r *rig) error { return r.fs.WriteAt(".git/modules/lib/config", []byte("x"), 0) }, ".git/modules/lib/config"},
		"one with a name":       {func(r *rig) error { return r.fs.WriteAt(".git/modules/logs/config", []byte("x"), 0) }, ".git/modules/logs/config"},
		"its directory away":    {func(r *rig) error { return r.fs.Rename(".git/modules/lib", "lib", 0) }, ".git/modules/lib"},
		"its directory over it": {func(r *rig) error { return r.fs.Rename("sub", ".git/modules/lib", renameExchange) }, ""},
		"all of them":           {func(r *rig) error { return r.fs.Rename(".git/modules", "m", 0) }, ".git/modules"},
		"which one it is":       {func(r *rig) error { return r.fs.WriteAt("module/.git", []byte("gitdir: /x"), 0) }, "module/.git"},
		"a worktree's":          {func(r *rig) error { return r.fs.WriteFile(".git/worktrees/wt/config.worktree", nil) }, ".git/worktrees/wt/config.worktree"},
		"where its config is":   {func(r *rig) error { return r.fs.WriteAt(".git/worktrees/wt/commondir", []byte("/x"), 0) }, ".git/worktrees/wt/commondir"},
		"the worktree away":     {func(r *rig) error { return r.fs.Rename(".git/worktrees/wt", "wt", 0) }, ".git/worktrees/wt"},
		"hooks of git's":        {func(r *rig) error { return r.fs.WriteAt("tools/hooks/post-checkout", []byte("x"), 0) }, "tools/hooks"},
		"their directory":       {func(r *rig) error { return r.fs.Rename("tools", "good", 0) }, "tools"},
		"what git includes":     {func(r *rig) error { return r.fs.WriteAt("shared.cfg", []byte("x"), 0) }, "shared.cfg"},
		"an agent's hooks":      {func(r *rig) error { return r.fs.WriteAt(".github/hooks/x.json", []byte("x"), 0) }, ".github/hooks"},
		"what they lie in":      {func(r *rig) error { return r.fs.Rename("sub", ".github", renameExchange) }, ""},
		"of a repository below": {func(r *rig) error { return r.fs.WriteAt("sub/.git/config", []byte("x"), 0) }, "sub/.git/config"},
		"direnv below":          {func(r *rig) error { return r.fs.WriteAt("sub/.envrc", []byte("x"), 0) }, "sub/.envrc"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, repository(), protecting)
			r.assign(1)
			before := r.snap()
			done := r.start(func() error { return c.do(r) })
			q := r.asked()
			if !strings.HasPrefix(q.Paths[0], c.entry) || q.Kind != messages.KindProtected || q.Step != 1 || q.Count != 1 || !strings.Contains(q.Message, "protected") {
				t.Errorf("%+v", q)
			}
			r.same(before)
			r.must(r.fs.WriteAt("main.go", []byte("y"), 0)) // others go on
			r.answer(q, false)
			if err := actortest.Within(t, "refused operation", done); !errors.Is(err, fsbridge.ErrDenied) {
				t.Errorf("refused: %v", err)
			}
			if err := c.do(r); !errors.Is(err, fsbridge.ErrDenied) { // nobody is asked again in this step
				t.Errorf("again: %v", err)
			}
			if e, err := r.closeStep(1); err != nil || e == nil || e.AffectedCount != 1 { // and it goes on
				t.Errorf("close: %+v, %v", e, err)
			}
			r.assign(2)
			done = r.start(func() error { return c.do(r) })
			q = r.asked()
			r.answer(q, true)
			r.must(actortest.Within(t, "allowed operation", done))
			if _, err := r.closeStep(2); err != nil {
				t.Error(err)
			}
			r.safeguard.None()
			r.must(r.undo())
			r.must(r.undo())
			r.same(before)
		})
	}
}

// What programs do all day is not held.
func TestNotProtected(t *testing.T) {
	r := newRig(t, repository(), protecting)
	r.assign(1)
	for name, err := range map[string]error{
		"HEAD":                   r.fs.WriteAt(".git/HEAD", []byte("ref: y"), 0),
		"the index":              r.fs.WriteFile(".git/index.lock", []byte("x")),
		"a lock":                 r.fs.WriteFile(".git/config.lock", []byte("[core]")),
		"a branch called config": r.fs.WriteAt(".git/refs/heads/config", []byte("2"), 0),
		"a sample":               r.fs.WriteAt(".git/hooks/a.sample", []byte("!"), 0),
		"an editor's below":      r.fs.WriteAt("sub/.vscode/settings.json", []byte("[]"), 0),
		"rm below":               r.fs.Unlink("sub/.git/hooks/x"),
		"an empty directory":     r.fs.Mkdir(".idea", 0o755),
		"clone":                  errors.Join(r.fs.Mkdir("new", 0o755), r.fs.Mkdir("new/.git", 0o755), r.fs.WriteFile("new/.git/config", nil), r.fs.WriteFile("new/.envrc", nil)),
		"a workflow":             r.fs.WriteAt(".github/workflows/x.yml", []byte("x"), 0),
		"a worktree's HEAD":      r.fs.WriteAt(".git/worktrees/wt/HEAD", []byte("ref: y"), 0),
		"a new worktree":         errors.Join(r.fs.Mkdir(".git/worktrees/n", 0o755), r.fs.WriteFile(".git/worktrees/n/commondir", nil), r.fs.Mkdir("n", 0o755), r.fs.WriteFile("n/.git", []byte("gitdir: x"))),
		"its file":               r.fs.Rename(".git/index.lock", ".git/index", 0),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.safeguard.None()
	// One made in an earlier step is protected.
	if _, err := r.closeStep(1); err != nil {
		t.Fatal(err)
	}
	r.assign(2)
	done := r.start(func() error { return r.fs.WriteAt("new/.git/config", []byte("x"), 0) })
	r.answer(r.asked(), true)
	r.must(actortest.Within(t, "write", done))
	done = r.start(func() error { return r.fs.Rename("evil", "lib", 0) })
	r.must(actortest.Within(t, "rename", done))
	done = r.start(func() error { return r.fs.WriteFile(".git/hooks/x", nil) })
	r.answer(r.asked(), true)
	r.must(actortest.Within(t, "hook", done))
	r.must(r.fs.WriteFile(".git/hooks/y", nil)) // the answer was for the directory
	if st, err := os.Stat(filepath.Join(r.dir, ".git/hooks/y")); err != nil || st.Mode().Type() != 0 {
		t.Error(err)
	}
}

// A repository that was there before does not become the step's own by being moved into a directory that is, whatever the way; nor does another become the repository.
func TestW8MovedRepository(t *testing.T) {
	for name, c := range map[string]struct {
		free, held func(r *rig) error
	}{
		"a repository into a new directory of its name": {
			func(r *rig) error { return errors.Join(r.fs.Rename("sub", "old", 0), r.fs.Mkdir("sub", 0o755)) },
			func(r *rig) error { return r.fs.Rename("old/.git", "sub/.git", 0) },
		},
		"under another name": {
			func(r *rig) error {
				return errors.Join(r.fs.Rename("sub/.git", "g", 0), r.fs.WriteFile("g/hooks/pre-commit", nil))
			},
			func(r *rig) error { return r.fs.Rename("g", "sub/.git", 0) },
		},
		"a new one in its place": {
			func(r *rig) error {
				return errors.Join(r.fs.Mkdir("g", 0o755), r.fs.WriteFile("g/config", nil), r.fs.Rename("sub/.git", "old", 0))
			},
			func(r *rig) error { return r.fs.Rename("g", "sub/.git", 0) },
		},
		"one that is made anew": {
			func(r *rig) error {
				return errors.Join(r.fs.Rename("sub/.git", "old", 0), r.fs.Mkdir("sub/.git", 0o755))
			},
			func(r *rig) error { return r.fs.WriteFile("sub/.git/config", nil) },
		},
		"hooks of one that was moved": {
			func(r *rig) error { return errors.Join(r.fs.Mkdir("n", 0o755), r.fs.Rename("sub", "n/sub", 0)) },
			func(r *rig) error { return r.fs.WriteFile("n/sub/.git/hooks/pre-commit", nil) },
		},
		"a file that names another": {
			func(r *rig) error { return errors.Join(r.fs.Mkdir("n", 0o755)) },
			func(r *rig) error { return r.fs.Link("main.go", "n/.git") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, repository(), protecting)
			r.assign(1)
			r.must(c.free(r))
			r.safeguard.None()
			done := r.start(func() error { return c.held(r) })
			r.answer(r.asked(), false)
			if err := actortest.Within(t, "refused operation", done); !errors.Is(err, fsbridge.ErrDenied) {
				t.Errorf("refused: %v", err)
			}
		})
	}
}

// git init asks nothing where no repository was; what it has made is protected from the next step on. Another
// directory does not become git's.
func TestNewRepository(t *testing.T) {
	r := newRig(t, map[string]string{"lib/hooks/post-checkout": "#!", "lib/config": ""}, protecting)
	r.assign(1)
	done := r.start(func() error { return r.fs.Rename("lib", ".git", 0) })
	r.answer(r.asked(), false)
	if err := actortest.Within(t, "rename", done); !errors.Is(err, fsbridge.ErrDenied) {
		t.Errorf("%v", err)
	}
	r.must(r.fs.Mkdir(".git", 0o755))
	r.must(r.fs.Mkdir(".git/hooks", 0o755))
	r.must(r.fs.WriteFile(".git/config", []byte("[core]")))
	r.must(r.fs.WriteFile(".git/hooks/x", nil))
	r.must(r.fs.Unlink(".git/hooks/x"))
	r.must(r.fs.WriteFile(".git/hooks/y", nil))
	r.safeguard.None()
	if _, err := r.closeStep(1); err != nil {
		t.Fatal(err)
	}
	r.assign(2)
	for _, do := range []func() error{
		func() error { return r.fs.WriteAt(".git/config", []byte("x"), 0) },
		func() error { return r.fs.Rename(".git", "old", 0) },
		func() error { return r.fs.Unlink(".git/hooks/y") },
	} {
		done := r.start(do)
		r.answer(r.asked(), false)
		if err := actortest.Within(t, "write", done); !errors.Is(err, fsbridge.ErrDenied) {
			t.Errorf("%v", err)
		}
	}
}

// fixedWrites are rules by path.
type fixedWrites map[string]Verdict

func (f fixedWrites) Decide(path string) (Verdict, bool, string) {
	return f[filepath.Base(path)], false, "rule of " + filepath.Base(path)
}

func (f fixedWrites) Within(dir string) bool { return filepath.Base(dir) == "holds" }

// Rules deny, ask, and allow what is protected; they are read anew for each step.
func TestRulesAboutWriting(t *testing.T) {
	rules := fixedWrites{"no": Denied, "ask": Asked, "config": Allowed, "data": Denied}
	refused := make(chan string, 100)
	answers := make(chan string, 100)
	r := newRig(t, map[string]string{"no": "1", "ask": "1", "yes": "1", ".git/config": "", "holds/data": "1", "free/x": "1"}, func(o *Options) {
		protecting(o)
		o.Writes = func() Writes { return rules }
		o.Events.Refused = func(path, rule string) { refused <- path + " by " + rule }
		o.Remember = func(entry string, below bool, a *messages.Answer) { answers <- entry + " " + a.Scope }
	})
	for name, err := range map[string]error{
		"write": r.fs.WriteAt("no", []byte("2"), 0), "remove": r.fs.Unlink("no"), "rename": r.fs.Rename("no", "n", 0), "rename over": r.fs.Rename("yes", "no", 0),
		"rename of what holds it": r.fs.Rename("holds", "h", 0), "link": r.fs.Link("no", "n"), "mode": r.fs.Chmod("no", 0o600),
	} {
		if !errors.Is(err, fsbridge.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := actortest.Within(t, "refusal", refused); !strings.Contains(got, "by ") {
		t.Error(got)
	}
	r.must(r.fs.WriteAt(".git/config", []byte("x"), 0))
	r.must(r.fs.Rename("free", "f", 0))
	r.safeguard.None()
	r.assign(1)
	done := r.start(func() error { return r.fs.WriteAt("ask", []byte("2"), 0) })
	q := r.asked()
	q.Answer(&messages.Answer{Token: q.Token, ID: "sg_001", Allow: true, By: "test", Scope: "project"})
	r.must(actortest.Within(t, "write", done))
	if got := actortest.Within(t, "answer", answers); got != "ask project" {
		t.Error(got)
	}
	if _, err := r.closeStep(1); err != nil {
		t.Fatal(err)
	}
	rules["no"], rules["yes"] = Allowed, Denied
	r.assign(2)
	r.must(r.fs.WriteAt("no", []byte("3"), 0))
	if err := r.fs.Unlink("yes"); !errors.Is(err, fsbridge.ErrDenied) {
		t.Error(err)
	}
}

// Who waits for a decision can be killed, and the question is taken back.
func TestKilledWhileProtected(t *testing.T) {
	r := newRig(t, repository(), func(o *Options) {
		protecting(o)
		o.Dying = func(pid uint32) bool { return pid == 42 }
	})
	cancel := make(chan struct{})
	r.fs.Prepare = func(op *fsbridge.Op) { op.PID, op.Cancel = 42, cancel }
	r.assign(1)
	done := r.start(func() error { return r.fs.WriteAt(".git/config", []byte("x"), 0) })
	q := r.asked()
	r.held(1)
	close(cancel)
	if err := actortest.Within(t, "held write", done); !errors.Is(err, fsbridge.ErrInterrupted) {
		t.Errorf("%v", err)
	}
	if w := actortest.Expect[*messages.Withdraw](r.safeguard); w.Token != q.Token {
		t.Errorf("withdrawn: %+v", w)
	}
	if _, err := r.closeStep(1); err != nil {
		t.Error(err)
	}
}

// A step that is rolled back while somebody waits takes the question back.
func TestRolledBackWhileProtected(t *testing.T) {
	r := newRig(t, repository(), protecting)
	r.assign(1)
	done := r.start(func() error { return r.fs.WriteAt(".git/config", []byte("x"), 0) })
	r.asked()
	r.tell(&Failing{1})
	if err := actortest.Within(t, "held write", done); !errors.Is(err, fsbridge.ErrDenied) {
		t.Errorf("%v", err)
	}
	actortest.Expect[*messages.Withdraw](r.safeguard)
	r.must(r.abort(1))
}

// BenchmarkProtectedName is what a new name four directories down costs more.
func BenchmarkProtectedName(b *testing.B) {
	r := newRig(b, map[string]string{"a/b/c/f": ""}, protecting)
	dir, err := r.fs.Object("a/b/c")
	if err != nil {
		b.Fatal(err)
	}
	op := &fsbridge.Op{Kind: fsbridge.OpCreate, Dir: dir, Name: "new"}
	b.ReportAllocs()
	for b.Loop() {
		if r.hooks.protected(op, 1, nil) != nil {
			b.Fatal("protected")
		}
	}
}

// A git directory that is a folder of its own, as a worktree's is, is protected, too.
func TestProtectedGitDirectory(t *testing.T) {
	r := newRig(t, map[string]string{"config": "[core]", "HEAD": "x"}, func(o *Options) {
		protecting(o)
		o.Directory = "/repo/.git"
	})
	r.assign(1)
	r.must(r.fs.WriteAt("HEAD", []byte("y"), 0))
	for _, path := range []string{"config", "hooks/x"} {
		if path == "hooks/x" {
			r.must(r.fs.Mkdir("hooks", 0o755))
		}
		done := r.start(func() error { return r.fs.WriteFile(path, []byte("y")) })
		q := r.asked()
		if !strings.Contains(q.Message, `".git/`+path+`"`) {
			t.Error(q.Message)
		}
		r.answer(q, false)
		if err := actortest.Within(t, path, done); !errors.Is(err, fsbridge.ErrDenied) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
