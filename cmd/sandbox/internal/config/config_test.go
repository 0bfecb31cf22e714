package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

func write(t *testing.T, dir, text string) string {
	t.Helper()
	file := filepath.Join(dir, FileName)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// drive is what an absolute path begins with, before its first slash.
var drive = filepath.VolumeName(os.TempDir())

// load reads texts as the organisation's and the user's file.
func load(t *testing.T, organisation, user string) (*Set, Sources, error) {
	t.Helper()
	from := Sources{Organisation: write(t, t.TempDir(), organisation), User: write(t, t.TempDir(), user)}
	s, err := Load(from)
	return s, from, err
}

func must(t *testing.T, organisation, user string) (*Set, Sources) {
	t.Helper()
	s, from, err := load(t, organisation, user)
	if err != nil {
		t.Fatal(err)
	}
	return s, from
}

func TestFileIsRead(t *testing.T) {
	s, _ := must(t, "", `
isolation = "none"
log_level = "debug"
[undo]
max_bytes = "2GiB"
max_steps = 7
max_age = "72h"
max_step_bytes = -1
[safeguards]
deletes = 100
overwrite_bytes = 1048576
timeout = "10s"
exempt = ["**/*.tmp"]
[bridge]
cache = "none"
[[directory]]
path = "`+drive+`/a"
label = "main"
[[directory]]
path = "`+drive+`/b"
access = "read_only"
`)
	c := s.Config
	if c.Isolation != "none" || c.Log.Level != "debug" || c.Undo.LogBytes != 2<<30 || c.Undo.StepCount != 7 ||
		c.Undo.Age != 72*time.Hour || c.Undo.StepBytes != -1 || c.Safeguards.DeleteThreshold != 100 ||
		c.Safeguards.OverwriteBytes != 1<<20 || c.Safeguards.Timeout != 10*time.Second ||
		!slices.Equal(c.Safeguards.Exempt, []string{"**/*.tmp"}) || c.Bridge.Cache != "none" ||
		!slices.Equal(c.Directory, []Directory{{Path: drive + "/a", Label: "main"}, {Path: drive + "/b", ReadOnly: true}}) {
		t.Errorf("read as %+v", c)
	}
}

func TestErrorsSayWhere(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":         {"[undo]\nmax_steps = 1\ndri = \"x\"\n", ":3: unknown key \"undo.dri\"; did you mean \"undo.dir\"?"},
		"unknown table":       {"\n[udno]\ndir = \"x\"\n", ":2: unknown key \"udno\""},
		"without its table":   {"deletes = 3\n", "did you mean \"safeguards.deletes\"?"},
		"in an inline table":  {"jail = {hide = [],\n shwo = []}\n", ":2: unknown key \"jail.shwo\""},
		"wrong type":          {"[undo]\n\nmax_steps = \"many\"\n", ":3: undo.max_steps: \"many\""},
		"wrong size":          {"[undo]\nmax_bytes = \"12 parsecs\"\n", ":2: undo.max_bytes: \"12 parsecs\" is not a size"},
		"wrong duration":      {"[undo]\nmax_age = \"soon\"\n", ":2: undo.max_age: \"soon\" is not a time"},
		"negative duration":   {"[safeguards]\ntimeout = \"-3s\"\n", "is not a time"},
		"too short a quiet":   {"[steps]\nquiet = \"1us\"\n", ":2: steps.quiet: 1µs is not between 1ms and 10s"},
		"too long a quiet":    {"[steps]\nquiet = \"11s\"\n", "steps.quiet: 11s is not between 1ms and 10s"},
		"too long a wait":     {"[steps]\nquiet_max = \"61s\"\n", "steps.quiet_max: 1m1s is not between 1ms and 1m"},
		"no step for long":    {"[steps]\nservice_after = \"999ms\"\n", "steps.service_after: 999ms is not between 1s and 8760h"},
		"no ambient steps":    {"[steps]\nambient_idle = \"99ms\"\n", "steps.ambient_idle: 99ms is not between 100ms and 1h"},
		"a quiet number":      {"[steps]\nquiet = 100\n", "steps.quiet: 100 is not what belongs here: write a time in quotes"},
		"no address":          {"[serve]\nmetrics = \"nowhere\"\n", ":2: serve.metrics: \"nowhere\" is no address: it is HOST:PORT"},
		"not a policy":        {"[undo]\nbarriers = \"maybe\"\n", ":2: undo.barriers: \"maybe\" is not one of"},
		"not an isolation":    {"isolation = \"magic\"\n", ":1: isolation: \"magic\""},
		"not a level":         {"log_level = \"loud\"\n", ":1: log.level: \"loud\" is not one of"},
		"syntax":              {"[undo\n", ":1:"},
		"twice":               {"[undo]\nmax_steps = 1\nmax_steps = 2\n", ":3:"},
		"negative nonsense":   {"[undo]\nmax_bytes = -5\n", "is not a size"},
		"a negative number":   {"[safeguards]\ndeletes = -1\n", "out of range"},
		"a giant number":      {"[safeguards]\ndeletes = 4611686018427387904\n", "out of range"},
		"a table for a value": {"[undo.max_steps]\nx = 1\n", "undo.max_steps: a table"},
		"a value for a table": {"undo = 3\n", "unknown key \"undo\""},
		"a list of numbers":   {"[jail]\nhide = [1]\n", ":2: jail.hide: 1 is not"},
		"a lock by the user":  {"locked = [\"undo.dir\"]\n", ":1: locked: only the organisation's file"},
		"a relative folder":   {"[[directory]]\npath = \"x\"\n", ":1: directory: path \"x\" is not absolute"},
		"a folder's key":      {"[[directory]]\npath = \"/x\"\nlable = \"y\"\n", "unknown key \"lable\""},
		"a bad label":         {"[[directory]]\npath = \"/x\"\nlabel = \"a b\"\n", "not a label"},
		"not UTF-8":           {"isolation = \"\xff\"\n", ":1:"},
	} {
		t.Run(name, func(t *testing.T) {
			_, from, err := load(t, "", c.text)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), from.User+":") {
				t.Errorf("error %v, want %q and the file's name in it", err, c.want)
			}
		})
	}
}

func TestAllMistakesAreReported(t *testing.T) {
	_, _, err := load(t, "", "isolation = \"magic\"\n[undo]\nmax_stesp = 1\nmax_age = 3\n")
	for _, want := range []string{":1: isolation", ":3: unknown key", ":4: undo.max_age"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

func TestLaterLevelsWin(t *testing.T) {
	s, from := must(t, "[undo]\nmax_steps = 10\nsymlinks = \"read-only\"\n", "[undo]\nmax_steps = 20\n[jail]\nhide = [\""+drive+"/a\"]\n")
	project := t.TempDir()
	file := write(t, project, "[jail]\nhide = [\""+drive+"/b\", \""+drive+"/a\"]\n[safeguards]\ndeletes = 5\n")
	if err := s.AddProject(project); err != nil {
		t.Fatal(err)
	}
	for _, set := range []struct {
		flag   string
		values []string
	}{{"safeguard-deletes", []string{"9", "50"}}, {"hide", []string{drive + "/c"}}, {"gitignore", []string{"true"}}, {"safeguard-overwrite", []string{"2MiB"}}} {
		if err := s.SetFlag(set.flag, set.values); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string][2]string{
		"undo.max_steps":             {"20", from.User + ":2"},
		"undo.symlinks":              {`"read-only"`, from.Organisation + ":3"},
		"undo.barriers":              {`"barrier"`, "default"},
		"undo.gitignore":             {"true", "--gitignore"},
		"jail.hide":                  {`["` + drive + `/a", "` + drive + `/b", "` + drive + `/c"]`, from.User + ":4 " + file + ":2 --hide"},
		"safeguards.deletes":         {"50", "--safeguard-deletes"},
		"safeguards.overwrite_bytes": {`"2MiB"`, "--safeguard-overwrite"},
	}
	for _, v := range s.Values() {
		if w, ok := want[v.Key]; ok && (v.Text != w[0] || strings.Join(v.Origin, " ") != w[1]) {
			t.Errorf("%s = %s from %s, want %v", v.Key, v.Text, v.Origin, w)
		}
		delete(want, v.Key)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
}

func TestZeroMeansTheDefault(t *testing.T) {
	s, _ := must(t, "", "isolation = \"\"\n[undo]\nmax_bytes = 0\nmax_steps = 0\n[safeguards]\ntimeout = \"0s\"\n")
	d := Default()
	if s.Undo.LogBytes != d.Undo.LogBytes || s.Undo.StepCount != d.Undo.StepCount || s.Safeguards.Timeout != d.Safeguards.Timeout || s.Isolation != "auto" {
		t.Errorf("%+v", s.Config)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "1": 1, "64KiB": 64 << 10, "1.5 GiB": 3 << 29, "2GB": 2e9, "10m": 10 << 20, "-1": -1, "7 B": 7,
	} {
		var b Size
		if err := b.Set(text); err != nil || b != want {
			t.Errorf("%q: %d, %v; want %d", text, b, err, want)
		}
		var again Size
		if err := again.Set(b.String()); err != nil || again != b {
			t.Errorf("%q: %d is written as %s, read as %d", text, b, b, again)
		}
	}
	for _, text := range []string{"", "B", "x", "1x", "-2", "-1KiB", "1e40", "NaN", "Inf"} {
		var b Size
		if err := b.Set(text); err == nil {
			t.Errorf("%q is taken for %d", text, b)
		}
	}
}

func TestDurationsAreShort(t *testing.T) {
	for text, want := range map[string]string{"30s": "30s", "720h": "720h", "90m": "1h30m", "1h0m5s": "1h0m5s", "0": "0s", "60s": "1m", "10m": "10m"} {
		var d Duration
		if err := d.Set(text); err != nil || d.String() != want {
			t.Errorf("%s becomes %s (%v), want %s", text, d, err, want)
		}
	}
}

func TestLocks(t *testing.T) {
	const organisation = "locked = [\"safeguards\", \"jail.show\", \"undo.max_steps\"]\n[safeguards]\ndeletes = 10\n[undo]\nmax_steps = 5\n"
	for name, user := range map[string]string{
		"a key":             "[undo]\nmax_steps = 500\n",
		"a key of a table":  "[safeguards]\ndeletes = 0\n",
		"by its default":    "[safeguards]\nrename_over = true\n",
		"a list":            "[jail]\nshow = [\"" + drive + "/root/.ssh\"]\n",
		"both right, wrong": "[undo]\nmax_steps = 5\n[safeguards]\ntimeout = \"1h\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, from, err := load(t, organisation, user)
			if err == nil || !strings.Contains(err.Error(), "is locked by "+from.Organisation+":1") {
				t.Errorf("error %v", err)
			}
		})
	}
	s, from := must(t, organisation, "[undo]\nmax_steps = 5\nmax_bytes = 7\n")
	if err := s.SetFlag("safeguard-deletes", []string{"100"}); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("a flag: %v", err)
	}
	if err := s.SetFlag("show", []string{drive + "/root/.ssh"}); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("a list's flag: %v", err)
	}
	if err := s.SetFlag("safeguard-deletes", []string{"10"}); err != nil {
		t.Errorf("a flag with the same value: %v", err)
	}
	project := t.TempDir()
	write(t, project, "[safeguards]\ndeletes = 3\n")
	if err := s.AddProject(project); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("a project: %v", err)
	}
	// Another file in place of the user's does not get around the locks.
	from.Named = write(t, t.TempDir(), "[safeguards]\ndeletes = 0\n")
	if _, err := Load(from); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("a named file: %v", err)
	}
	if err := s.LockOf("undo.dir", "safeguards.timeout"); err == nil {
		t.Error("a locked key is not found")
	}
	if err := s.LockOf("undo.dir"); err != nil {
		t.Error(err)
	}
	if _, _, err := load(t, "locked = [\"safeguard\"]\n", ""); err == nil || !strings.Contains(err.Error(), "did you mean") {
		t.Errorf("an unknown lock: %v", err)
	}
}

// TestProjectMayOnlyTighten goes through every key: what a project's file may
// set is what its rule says.
func TestProjectMayOnlyTighten(t *testing.T) {
	const user = `isolation = "auto"
[undo]
symlinks = "read-write"
barriers = "barrier"
[network]
policy = "ask"
[commands]
at_once = 8
[safeguards]
deletes = 100
overwrite_bytes = 1000
timeout = "30s"
`
	allowed := []string{
		`isolation = "jail"`, `undo.symlinks = "read-only"`, `undo.barriers = "lock"`, `undo.durability = "power"`, `undo.gitignore = false`, `undo.keep_output = false`,
		`safeguards.deletes = 5`, `safeguards.deletes = 100`, `safeguards.overwrite_bytes = 1`, `safeguards.rename_over = true`, `safeguards.protect = true`,
		`safeguards.timeout = "1s"`, `jail.hide = ["` + drive + `/x"]`, `jail.mode = "dynamic"`, `jail.gate = ["` + drive + `/x"]`, `jail.debug = false`, `jail.containers = false`, `jail.run_32bit = false`, `bridge.cache = "none"`, `bridge.kind = "fuse"`, `log.level = "error"`, `log.level = "trace"`, `log.format = "json"`,
		`classifier.destructive = ["make clean"]`, `classifier.auto_approve = "read-only"`, `mcp.timeout = "1m"`, `isolation = "vm"`, `vm.mode = "ephemeral"`, `vm.seatbelt = true`,
		`places.caches = "read-only"`, `places.home = "read-only"`,
		`network.policy = "allowlist"`, `network.policy = "disabled"`, `network.deny = ["evil.test"]`, `commands.at_once = 8`, `commands.at_once = 1`,
		`limits.pids = 100`, `limits.memory = "1GiB"`, `limits.memory_high = "1GiB"`, `limits.cpus = "1.5"`, `limits.io = "1MiB"`, `limits.file = "1MiB"`, `limits.tmp = "1MiB"`, `limits.folders = "1MiB"`,
	}
	refused := []string{
		`isolation = "none"`, `locked = ["undo"]`, `directory = [{path = "/etc"}]`, `undo.dir = "/tmp/x"`, `undo.max_bytes = 1`, `undo.max_bytes = -1`,
		`undo.max_steps = 1`, `undo.max_step_bytes = 1`, `undo.max_age = "1s"`, `undo.max_uncompressed_bytes = 1`, `undo.symlinks = "ignore"`,
		`undo.barriers = "warn"`, `undo.gitignore = true`, `safeguards.deletes = 0`, `safeguards.deletes = 101`, `safeguards.overwrite_bytes = 0`,
		`safeguards.overwrite_bytes = -1`, `safeguards.overwrite_bytes = 1001`, `safeguards.timeout = "31s"`, `safeguards.exempt = ["**"]`, `safeguards.exempt = []`, `safeguards.protect = false`,
		`steps.quiet = "1ms"`, `steps.quiet_max = "1s"`, `steps.ambient_idle = "1s"`, `steps.service_after = "1s"`, `notifications.desktop = "off"`, `jail.show = ["/root/.ssh"]`, `jail.debug = true`, `jail.containers = true`, `jail.run_32bit = true`, `jail.agents = ["ssh"]`, `jail.allow_use = ["ssh:**"]`, `jail.devices = ["kvm"]`, `network.strategy = "rewire-port"`, `network.listening_base_port = 20000`, `network.listening_port_count = 4`, `network.listening_loopback = "127.0.0.2"`, `bridge.kind = "mediated"`, `bridge.posix_metadata = true`,
		`serve.listen = "0.0.0.0:1"`, `serve.metrics = "0.0.0.0:1"`, `agent.command = ["x"]`, `mcp.socket = "/tmp/x"`, `mcp.timeout = "3m"`, `stdio.timeout = "1s"`, `classifier.max_bytes = 1`, `classifier.read_only = ["rm"]`, `classifier.write = ["rm"]`,
		`profile = "codex"`, `places.overlay = ["/opt"]`, `places.rw = ["/opt"]`,
		`network.policy = "open"`, `network.allow = ["*"]`, `network.publish = ["80:80"]`, `network.inject = ["a.test: A: $B"]`, `commands.at_once = 9`, `commands.at_once = -1`, `commands.at_once = 1001`,
		`limits.pids = -1`, `limits.pids = 5000`, `limits.cpus = "many"`,
		`vm.memory = "1GiB"`, `vm.cpus = 1`, `vm.acceleration = "tcg"`, `vm.fs_backend = "9p"`, `vm.boot_timeout = "1s"`, `vm.qemu = "/tmp/x"`, `vm.kernel = "/tmp/x"`, `vm.initrd = "/tmp/x"`,
		`vm.rootfs = "/tmp/x"`, `vm.mode = "persistent"`, `vm.disk_size = 1`,
	}
	tried := map[string]bool{}
	try := func(line string) error {
		s, _ := must(t, "", user)
		before := s.Config
		dir := t.TempDir()
		write(t, dir, "\n"+line+"\n")
		tried[strings.Fields(line)[0]] = true
		err := s.AddProject(dir)
		if err != nil && text(&s.Safeguards.Exempt)+s.Isolation != text(&before.Safeguards.Exempt)+before.Isolation {
			t.Errorf("%s: refused, and set nevertheless", line)
		}
		return err
	}
	refused = append(refused, `network.policy = "pod"`, `network.policy = "pod-ask"`)
	for _, line := range allowed {
		if err := try(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, line := range refused {
		err := try(line)
		if err == nil || !strings.Contains(err.Error(), FileName+":2: "+strings.Fields(line)[0]) {
			t.Errorf("%s: error %v", line, err)
		}
	}
	for _, k := range Keys() {
		if !tried[k.Name] {
			t.Errorf("the rule of %s is not tested", k.Name)
		}
	}
}

func TestProjectFileIsNotFollowed(t *testing.T) {
	s, _ := must(t, "", "")
	dir := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("password: hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, FileName)); err != nil {
		t.Fatal(err)
	}
	if err := s.AddProject(dir); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("a symlink: %v", err)
	}
	big := t.TempDir()
	write(t, big, strings.Repeat("#", hostfs.RegularSettings().Bytes+1))
	if err := s.AddProject(big); err == nil || !strings.Contains(err.Error(), "larger than 100 KiB") {
		t.Errorf("a large file: %v", err)
	}
	if err := s.AddProject(t.TempDir()); err != nil {
		t.Errorf("no file: %v", err)
	}
}

func TestNamedFileMustBeThere(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.toml")
	if _, err := Load(Sources{Organisation: none, User: none}); err != nil {
		t.Errorf("files that need not be there: %v", err)
	}
	if _, err := Load(Sources{Organisation: none, User: none, Named: none}); err == nil || !strings.Contains(err.Error(), none) {
		t.Errorf("a named file: %v", err)
	}
}

func TestFlags(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Flags() {
		if seen[f.Name()] || f.Usage() == "" || f.Type() == "" {
			t.Errorf("flag %q twice or without help", f.Name())
		}
		seen[f.Name()] = true
		if err := f.Set("\x00nonsense"); err == nil && f.Enum() != nil {
			t.Errorf("--%s takes nonsense", f.Name())
		}
	}
	if err := New().SetFlag("none", []string{"x"}); err == nil {
		t.Error("a flag of no key is taken")
	}
}

func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		"", "isolation = \"jail\"\n[undo]\nmax_bytes = \"1GiB\"\n", "[[directory]]\npath = \"/a\"\n[[directory]]\npath = \"/b\"\n",
		"undo = {max_steps = 3, \"dir\" = 'x'}\n", "jail.hide = [\n\"a\", # c\n]\n", "\"undo.dir\" = 1\n", "locked = [\"undo\"]\nundo.dir = \"/x\"\n",
		"[undo\n", "a.b.c.d.e = 1979-05-27T07:32:00Z\n", "[a]\n[a.b]\n[[a.c]]\nx = nan\n", "safeguards.timeout = \"30s\"\r\n",
	} {
		for level := range 3 {
			f.Add([]byte(seed), level)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		level := []Level{Organisation, User, Project}[uint(n)%3]
		s := New()
		before := s.Values()
		if err := s.addText("f", b, level); err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("the error does not say where: %v", err)
			}
			if after := s.Values(); !slices.EqualFunc(before, after, func(a, b Value) bool { return a.Text == b.Text }) {
				t.Error("an error changed something")
			}
			return
		}
		// What is shown can be read again and means the same.
		var again strings.Builder
		for _, v := range s.Values() {
			if v.Key != "directory" || v.Text != "[]" {
				again.WriteString(v.Key + " = " + v.Text + "\n")
			}
		}
		o := New()
		if err := o.addText("g", []byte(again.String()), Organisation); err != nil && isPlain(again.String()) {
			t.Fatalf("%v in\n%s", err, &again)
		} else if err == nil {
			for i, v := range o.Values() {
				if v.Text != s.Values()[i].Text {
					t.Errorf("%s: %s, then %s", v.Key, s.Values()[i].Text, v.Text)
				}
			}
		}
		if level == Project {
			for _, k := range Keys() {
				d := Default()
				if k.Rule == Never && text(k.field(&d)) != text(k.field(&s.Config)) {
					t.Errorf("a project set %s", k.Name)
				}
			}
		}
	})
}

// isPlain reports that Go's way to quote is TOML's too.
func isPlain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r == '\\' || r == 0xfffd || r > 0x7e })
}

// TestFields: each key has a field of its own, also where a group that others declare calls it otherwise.
func TestFields(t *testing.T) {
	var c Config
	of := map[any]string{}
	for _, k := range Keys() {
		f := k.field(&c)
		if other := of[f]; other != "" {
			t.Errorf("%s and %s have one field", other, k.Name)
		}
		of[f] = k.Name
		text(f) // panics if nobody knows the type
	}
}

// TestChanged: each key of a table, and no other, is found to be changed when its field is.
func TestChanged(t *testing.T) {
	var now Config
	for _, k := range Keys() {
		table, _ := k.place()
		want := now
		switch f := k.field(&want).(type) {
		case *int:
			*f = 1
		case *bool:
			*f = true
		case *Size:
			*f = 1
		case *Duration:
			*f = 1
		case *string:
			*f = "x"
		case *[]string:
			*f = []string{"x"}
		}
		for of, groups := range map[string][2]any{
			"undo": {now.Undo, want.Undo}, "safeguards": {now.Safeguards, want.Safeguards}, "steps": {now.Steps, want.Steps}, "jail": {now.Jail, want.Jail}, "limits": {now.Limits, want.Limits},
		} {
			if got := Changed(of, groups[0], groups[1]); table == of && !slices.Equal(got, []string{k.Name}) || table != of && got != nil {
				t.Errorf("%s: %q of [%s]", k.Name, got, of)
			}
		}
	}
	if got := Changed("undo", now.Undo.Limits, Default().Undo.Limits); len(got) != 4 {
		t.Errorf("of a part of the group: %q", got)
	}
}
