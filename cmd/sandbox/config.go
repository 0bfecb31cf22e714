package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// fileConfig is codeagent.toml; docs/configuration.md describes it.
type fileConfig struct {
	Isolation  string           `toml:"isolation"`
	LogLevel   string           `toml:"log_level"`
	Undo       undoConfig       `toml:"undo"`
	Safeguards safeguardsConfig `toml:"safeguards"`
	Jail       jailConfig       `toml:"jail"`
	Bridge     bridgeConfig     `toml:"bridge"`
}

type undoConfig struct {
	Dir        string   `toml:"dir"`
	MaxBytes   byteSize `toml:"max_bytes"`
	MaxSteps   int      `toml:"max_steps"`
	StepBytes  byteSize `toml:"max_step_bytes"`
	MaxAge     duration `toml:"max_age"`
	RawBytes   byteSize `toml:"max_uncompressed_bytes"`
	Symlinks   string   `toml:"symlinks"`
	Barriers   string   `toml:"barriers"`
	Durability string   `toml:"durability"`
	Gitignore  bool     `toml:"gitignore"`
}

type safeguardsConfig struct {
	Deletes        int      `toml:"deletes"`
	OverwriteBytes byteSize `toml:"overwrite_bytes"`
	RenameOver     bool     `toml:"rename_over"`
	Timeout        duration `toml:"timeout"`
	Exempt         []string `toml:"exempt"`
}

type jailConfig struct {
	Hide  []string `toml:"hide"`
	Show  []string `toml:"show"`
	Debug bool     `toml:"debug"`
}

type bridgeConfig struct {
	Cache string `toml:"cache"`
}

// configFiles are read in this order; a later one wins key by key. A project's
// own file is not read: what runs inside could write it.
func configFiles() []string {
	files := []string{"/etc/codeagent/codeagent.toml"}
	if dir, err := os.UserConfigDir(); err == nil {
		files = append(files, filepath.Join(dir, "codeagent", "codeagent.toml"))
	}
	return files
}

// loadConfig reads file, or without one the organisation's and the user's. A
// file that is not there is no error unless it was named.
func loadConfig(file string) (fileConfig, error) {
	var c fileConfig
	if file != "" {
		return c, c.read(file)
	}
	for _, f := range configFiles() {
		if err := c.read(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return c, err
		}
	}
	return c, nil
}

func (c *fileConfig) read(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if err := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields().Decode(c); err != nil {
		return fmt.Errorf("configuration: %w", placed(file, err))
	}
	if err := c.check(); err != nil {
		return fmt.Errorf("configuration: %s: %w", file, err)
	}
	return nil
}

// placed says in which file, line and key the error is.
func placed(file string, err error) error {
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) && len(unknown.Errors) > 0 {
		e := &unknown.Errors[0]
		row, _ := e.Position()
		return fmt.Errorf("%s:%d: unknown key %q", file, row, strings.Join(e.Key(), "."))
	}
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		row, _ := bad.Position()
		return fmt.Errorf("%s:%d: %s: %w", file, row, strings.Join(bad.Key(), "."), err)
	}
	return fmt.Errorf("%s: %w", file, err)
}

func (c *fileConfig) check() error {
	for _, k := range []struct {
		key, value string
		allowed    []string
	}{
		{"isolation", c.Isolation, isolations},
		{"undo.symlinks", c.Undo.Symlinks, symlinkPolicies},
		{"undo.barriers", c.Undo.Barriers, barrierPolicies},
		{"undo.durability", c.Undo.Durability, durabilities},
		{"bridge.cache", c.Bridge.Cache, caches},
	} {
		if err := oneOf(k.key, k.value, k.allowed); err != nil {
			return err
		}
	}
	for key, size := range map[string]byteSize{ // plain numbers do not pass Set
		"undo.max_bytes": c.Undo.MaxBytes, "undo.max_step_bytes": c.Undo.StepBytes,
		"undo.max_uncompressed_bytes": c.Undo.RawBytes, "safeguards.overwrite_bytes": c.Safeguards.OverwriteBytes,
	} {
		if size < -1 {
			return fmt.Errorf("%s: %d is not a size (-1 means no limit)", key, int64(size))
		}
	}
	_, err := parseLevel(c.LogLevel)
	return err
}

var (
	isolations      = []string{"auto", "jail", "none"}
	symlinkPolicies = []string{string(undolog.SymlinkReadWrite), string(undolog.SymlinkReadOnly), string(undolog.SymlinkIgnore)}
	barrierPolicies = []string{string(undolog.PolicyBarrier), string(undolog.PolicyWarn), string(undolog.PolicyLock)}
	durabilities    = []string{string(undolog.DurabilityProcess), string(undolog.DurabilityPower)}
	caches          = []string{"auto", "none"}
)

// oneOf accepts the empty value: it means the default.
func oneOf(key, value string, allowed []string) error {
	if value == "" {
		return nil
	}
	for _, a := range allowed {
		if value == a {
			return nil
		}
	}
	return fmt.Errorf("%s: %q is not one of %s", key, value, strings.Join(allowed, ", "))
}

// byteSize is a number of bytes, written as a number or with a unit ("64KiB",
// "1.5GB"); -1 means no limit.
type byteSize int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *byteSize) UnmarshalText(text []byte) error { return b.Set(string(text)) }

// Set implements pflag.Value.
func (b *byteSize) Set(s string) error {
	units := []struct {
		suffix string
		factor float64
	}{
		{"KIB", 1 << 10}, {"MIB", 1 << 20}, {"GIB", 1 << 30}, {"TIB", 1 << 40},
		{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
		{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1},
	}
	number, factor := strings.ToUpper(strings.TrimSpace(s)), 1.0
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = strings.TrimSpace(rest), u.factor
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n == -1 || n >= 0) || n*factor >= 1<<62 {
		return fmt.Errorf("%q is not a size: write a number of bytes, or one with KiB, MiB, GiB", s)
	}
	*b = byteSize(n * factor)
	return nil
}

// String implements pflag.Value.
func (b *byteSize) String() string {
	if *b == 0 {
		return ""
	}
	return bytesText(int64(*b))
}

// Type implements pflag.Value.
func (b *byteSize) Type() string { return "size" }

// duration is a time.Duration written as "30s" or "72h".
type duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = duration(v)
	return err
}
