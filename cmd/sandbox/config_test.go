package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "codeagent.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestConfigIsRead(t *testing.T) {
	c, err := loadConfig(writeConfig(t, `
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
`))
	if err != nil {
		t.Fatal(err)
	}
	if c.Isolation != "none" || c.LogLevel != "debug" || c.Undo.MaxBytes != 2<<30 || c.Undo.MaxSteps != 7 ||
		time.Duration(c.Undo.MaxAge) != 72*time.Hour || c.Undo.StepBytes != -1 || c.Safeguards.Deletes != 100 ||
		c.Safeguards.OverwriteBytes != 1<<20 || time.Duration(c.Safeguards.Timeout) != 10*time.Second ||
		len(c.Safeguards.Exempt) != 1 || c.Bridge.Cache != "none" {
		t.Errorf("read as %+v", c)
	}
}

func TestConfigErrorsSayWhere(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":       {"[undo]\nmax_steps = 1\ndri = \"x\"\n", ":3: unknown key \"undo.dri\""},
		"unknown table":     {"\n[udno]\ndir = \"x\"\n", ":2: unknown key \"udno\""},
		"wrong type":        {"[undo]\n\nmax_steps = \"many\"\n", ":3: undo.max_steps"},
		"wrong size":        {"[undo]\nmax_bytes = \"12 parsecs\"\n", "is not a size"},
		"wrong duration":    {"[undo]\nmax_age = \"soon\"\n", "soon"},
		"not a policy":      {"[undo]\nbarriers = \"maybe\"\n", "undo.barriers: \"maybe\" is not one of"},
		"not an isolation":  {"isolation = \"magic\"\n", "isolation: \"magic\""},
		"not a level":       {"log_level = \"loud\"\n", "unknown log level"},
		"syntax":            {"[undo\n", ":1:"},
		"negative nonsense": {"[undo]\nmax_bytes = -5\n", "is not a size"},
	} {
		t.Run(name, func(t *testing.T) {
			file := writeConfig(t, c.text)
			_, err := loadConfig(file)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) {
				t.Errorf("error %v, want %q and the file's name in it", err, c.want)
			}
		})
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "64KiB": 64 << 10, "1.5 GiB": 3 << 29, "2GB": 2e9, "10m": 10 << 20, "-1": -1, "7 B": 7,
	} {
		var b byteSize
		if err := b.Set(text); err != nil || int64(b) != want {
			t.Errorf("%q: %d, %v; want %d", text, b, err, want)
		}
	}
	for _, text := range []string{"", "B", "x", "1x", "-2", "1e40", "NaN", "Inf"} {
		var b byteSize
		if err := b.Set(text); err == nil {
			t.Errorf("%q is taken for %d", text, b)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("MY_TOKEN", "t")
	ours := []string{"PATH=/bin", "MY_TOKEN=t", "AWS_PROFILE=p", "LANG=C", "SSH_AUTH_SOCK=/s", "Db_Password=x"}
	got, err := environment(ours, []string{"LANG=de", "EMPTY=", "MY_TOKEN", "UNSET_THING"})
	if err != nil {
		t.Fatal(err)
	}
	if s := strings.Join(got, " "); s != "PATH=/bin LANG=de EMPTY= MY_TOKEN=t" {
		t.Errorf("got %q", s)
	}
	for _, bad := range []string{"", "=x", "A=\x00"} {
		if _, err := environment(nil, []string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestShownNamesAreHarmless(t *testing.T) {
	for name, want := range map[string]string{
		"plain-ü.txt": "plain-ü.txt", "a\nb": `"a\nb"`, "\x1b[2J": `"\x1b[2J"`, "x\xff": `"x\xff"`, "with space": "with space",
	} {
		if got := shown(name); got != want {
			t.Errorf("%q shown as %s, want %s", name, got, want)
		}
	}
}
