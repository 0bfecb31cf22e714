package configure

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

// desk is a user with a folder and all three files.
type desk struct {
	t                  *testing.T
	organisation, user string
	folder, project    string
	sources            config.Sources
	said               bytes.Buffer
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	dir := t.TempDir()
	d := &desk{t: t, organisation: filepath.Join(dir, "etc", config.FileName), user: filepath.Join(dir, "home", ".config", config.FileName), folder: filepath.Join(dir, "work")}
	if err := os.Mkdir(d.folder, 0o755); err != nil {
		t.Fatal(err)
	}
	d.project = filepath.Join(d.folder, config.FileName)
	d.sources = config.Sources{Organisation: d.organisation, User: d.user}
	return d
}

func (d *desk) put(file, text string) {
	d.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) read(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// run runs a command with a text as its input; into, unless it is nil, gets what it prints as JSON.
func (d *desk) run(input string, into any, args ...string) error {
	d.t.Helper()
	out := bytes.Buffer{}
	c := Commands{
		Stdin: strings.NewReader(input), Out: console.NewOutput(&out), Stderr: &d.said, JSON: func() bool { return into != nil }, Now: time.Now,
		Files: func() config.Sources { return d.sources }, Folder: func() (string, error) { return d.folder, nil }, Mode: func() fs.FileMode { return 0o640 },
	}
	cmd := c.Write()
	if args[0] == "text" {
		cmd = c.Text()
	}
	cmd.SetArgs(args[1:])
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.Execute()
	if into != nil && out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), into); err != nil {
			d.t.Fatalf("%v: %s", err, &out)
		}
	}
	if into == nil {
		d.said.Write(out.Bytes())
	}
	return err
}

func missing(file string) bool {
	_, err := os.Lstat(file)
	return errors.Is(err, os.ErrNotExist)
}

// hasMode tells whether a file has this mode, if it can have one.
func hasMode(st os.FileInfo, mode os.FileMode) bool {
	return runtime.GOOS == "windows" || st.Mode().Perm() == mode
}

// TestWrite: a text is shown as a diff with what it changes, and then written just so, with its comments, a copy beside it,
// and the file's mode.
func TestWrite(t *testing.T) {
	d := newDesk(t)
	const text = "# mine\n[undo]\nmax_steps = 7 # few\n"
	var preview, done Written
	if err := d.run(text, &preview, "write", "-", "--print"); err != nil {
		t.Fatal(err)
	}
	if preview.Change != "create" || !strings.Contains(preview.Diff, "+max_steps = 7 # few") || len(preview.Effects) != 1 || preview.Effects[0] != (Effect{"undo.max_steps", "100", "7"}) {
		t.Errorf("%+v", preview)
	}
	if !missing(d.user) {
		t.Errorf("a preview has made the file: %s", d.read(d.user))
	}
	if err := d.run(text, &done, "write", "-", "--expect", preview.Digest); err != nil || done.Digest != preview.Digest || done.Backup != "" {
		t.Fatalf("%v, %+v", err, done)
	}
	st, err := os.Stat(d.user)
	if err != nil || !hasMode(st, 0o640) || d.read(d.user) != text {
		t.Errorf("%v %v: %s", err, st.Mode(), d.read(d.user))
	}

	if err := os.Chmod(d.user, 0o600); err != nil {
		t.Fatal(err)
	}
	next := strings.Replace(text, "7", "8", 1)
	if err := d.run(next, &done, "write", "-"); err != nil || done.Change != "modify" || d.read(done.Backup) != text || d.read(d.user) != next {
		t.Errorf("%v, %+v", err, done)
	}
	if st, _ := os.Stat(d.user); !hasMode(st, 0o600) {
		t.Errorf("mode %v", st.Mode())
	}
	if err := d.run(next, &done, "write", "-"); err != nil || done.Change != "none" {
		t.Errorf("%v, %+v", err, done)
	}
	if err := d.run("", nil, "write", "-"); err != nil || d.read(d.user) != "" || !strings.Contains(d.said.String(), "undo.max_steps: 8 -> 100") {
		t.Errorf("an empty text: %v, %q, %s", err, d.read(d.user), &d.said)
	}
}

// TestWriteIsStale: what was changed since the preview is left alone.
func TestWriteIsStale(t *testing.T) {
	d := newDesk(t)
	d.put(d.user, "[undo]\nmax_steps = 1\n")
	var preview Written
	if err := d.run("[undo]\nmax_steps = 2\n", &preview, "write", "-", "--print"); err != nil {
		t.Fatal(err)
	}
	for _, other := range []struct{ there, text string }{{"[undo]\nmax_steps = 3\n", "[undo]\nmax_steps = 2\n"}, {"[undo]\nmax_steps = 1\n", "[undo]\nmax_steps = 9\n"}} {
		d.put(d.user, other.there)
		err := d.run(other.text, &Written{}, "write", "-", "--expect", preview.Digest)
		if status := (*console.Error)(nil); !errors.As(err, &status) || status.Code != console.Barrier {
			t.Errorf("%v: %v", other, err)
		}
		if d.read(d.user) != other.there {
			t.Errorf("it was written: %s", d.read(d.user))
		}
	}
	if copies, _ := filepath.Glob(filepath.Dir(d.user) + "/*"); len(copies) != 1 {
		t.Errorf("there are %v", copies)
	}
}

// TestWriteRefuses: what is wrong with a text is told with its line and nothing is written; a project's file widens nothing,
// a lock holds, and a file that leads out of its folder is not touched.
func TestWriteRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		level, text, says string
		line              int
	}{
		"an unknown key":        {"user", "[undo]\nmax_stesp = 3\n", "did you mean", 2},
		"no TOML":               {"user", "a\n\"", "expected", 1},
		"a wrong value":         {"organisation", "\n\nisolation = 'telepathy'\n", "not one of", 3},
		"a key that is locked":  {"user", "[safeguards]\ndeletes = 3\n", "locked", 2},
		"a weaker project":      {"project", "isolation = 'none'\n", "only tighten", 1},
		"a key of users only":   {"project", "profile = 'codex'\n", "may not set", 1},
		"a user's lock":         {"user", "locked = ['undo']\n", "organisation", 1},
		"a key that is a table": {"project", "undo = 3\n", "undo", 1},
	} {
		d := newDesk(t)
		d.put(d.organisation, "locked = ['safeguards.deletes']\n")
		was := map[string]string{"organisation": d.read(d.organisation)}
		var out Written
		err := d.run(c.text, &out, "write", "-", "--level", c.level)
		if err == nil || len(out.Mistakes) == 0 || out.Digest != "" {
			t.Errorf("%s: %v, %+v", name, err, out)
			continue
		}
		if m := out.Mistakes[0]; m.Line != c.line || !strings.Contains(m.Message, c.says) {
			t.Errorf("%s: %+v", name, m)
		}
		if d.read(d.organisation) != was["organisation"] || !missing(d.user) || !missing(d.project) {
			t.Errorf("%s: it was written", name)
		}
	}
	d := newDesk(t)
	outside := filepath.Join(filepath.Dir(d.folder), "outside.toml")
	d.put(outside, "x")
	if err := os.Symlink(outside, d.project); err != nil {
		t.Fatal(err)
	}
	if err := d.run("[undo]\nmax_steps = 3\n", nil, "write", "-", "--level", "project"); err == nil || d.read(outside) != "x" {
		t.Errorf("%v, %q", err, d.read(outside))
	}
	if err := d.run("", nil, "write", "-", "--level", "galaxy"); !console.IsUsage(err) {
		t.Error(err)
	}
	if err := d.run("", nil, "write", filepath.Join(d.folder, "none")); err == nil {
		t.Error("a text that is not there")
	}
}

// TestWriteWarns: a file of a level above that would be refused then is told of.
func TestWriteWarns(t *testing.T) {
	d := newDesk(t)
	d.put(d.project, "isolation = 'landlock'\n")
	var out Written
	if err := d.run("isolation = 'vm'\n", &out, "write", "-", "--print"); err != nil || len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], "project's file") {
		t.Errorf("%v, %+v", err, out)
	}
}

// TestText: a file is printed as it is, with what is wrong with it, and with why it cannot be changed.
func TestText(t *testing.T) {
	d := newDesk(t)
	var out Text
	if err := d.run("", &out, "text"); err != nil || out.There || !out.Editable || out.File != d.user || out.Mistakes == nil {
		t.Errorf("%v, %+v", err, out)
	}
	d.put(d.project, "# <b>\nisolation = 'none'\n")
	if err := d.run("", &out, "text", "--level", "project"); err != nil || !out.There || out.Text != "# <b>\nisolation = 'none'\n" || len(out.Mistakes) != 1 || out.Mistakes[0].Line != 2 {
		t.Errorf("%v, %+v", err, out)
	}
	if err := d.run("", nil, "text", "--level", "project"); err != nil || !strings.Contains(d.said.String(), "# <b>\n") {
		t.Errorf("%v, %s", err, &d.said)
	}
	for name, make := range map[string]func() error{
		"not UTF-8": func() error { return os.WriteFile(d.project, []byte("# \xff\n"), 0o600) },
		"not a regular file": func() error {
			return errors.Join(os.Remove(d.project), os.Symlink("/etc/passwd", d.project))
		},
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		out = Text{}
		if err := d.run("", &out, "text", "--level", "project"); err != nil || out.Editable || out.Text != "" || !strings.Contains(out.Why, name) {
			t.Errorf("%s: %v, %+v", name, err, out)
		}
		if err := d.run("[undo]\n", &Written{}, "write", "-", "--level", "project"); err == nil {
			t.Errorf("%s: it was written", name)
		}
		if err := errors.Join(os.Remove(d.project), os.WriteFile(d.project, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 {
		return // root may write anywhere
	}
	d.put(d.organisation, "")
	if err := os.Chmod(filepath.Dir(d.organisation), 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Dir(d.organisation), 0o755) }) // so that it can be removed
	if err := d.run("", &out, "text", "--level", "organisation"); err != nil || out.Editable || !strings.Contains(out.Why, "may not write") {
		t.Errorf("%v, %+v", err, out)
	}
}
