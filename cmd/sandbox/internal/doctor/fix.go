package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Fix is a setting of the machine: a file that keeps it over a restart, and the command
// that makes it count at once. Only root can install it.
type Fix struct {
	What    string   `json:"what"`
	File    string   `json:"file"`
	Content string   `json:"content"`
	Apply   []string `json:"apply"`
}

// sysctlDir keeps settings of the kernel; each of ours has a file.
const sysctlDir = "/etc/sysctl.d/"

// sysctl sets a key of the kernel.
func sysctl(key, value string) *Fix {
	file := sysctlDir + "60-sandbox-" + key + ".conf"
	return &Fix{
		What: "allow user namespaces: " + key + "=" + value, File: file,
		Content: key + " = " + value + "\n", Apply: []string{"sysctl", "-q", "-p", file},
	}
}

// profileFile is where AppArmor looks for profiles.
const profileFile = "/etc/apparmor.d/sandbox"

// profile is an AppArmor profile that takes nothing from this program, and lets it make user
// namespaces. Those of other programs stay restricted. nil if the path of the program
// cannot stand in one.
func profile(program string) *Fix {
	if program == "" || strings.ContainsAny(program, "\"\n\\*?[]{}^@#") {
		return nil
	}
	return &Fix{
		What: "let this program make user namespaces, and no other", File: profileFile,
		Content: "abi <abi/4.0>,\ninclude <tunables/global>\n\n" +
			"profile sandbox \"" + program + "\" flags=(unconfined) {\n  userns,\n\n  include if exists <local/sandbox>\n}\n",
		Apply: []string{"apparmor_parser", "-r", profileFile},
	}
}

// Fixes are those of the findings and, as root has rights that hide them, those of the
// switches that forbid user namespaces to others. read returns the text of a file of /proc,
// or "".
func Fixes(findings []Finding, read func(path string) string) []Fix {
	var all []Fix
	add := func(f *Fix) {
		if f != nil && !slices.ContainsFunc(all, func(have Fix) bool { return have.Content == f.Content }) {
			all = append(all, *f)
		}
	}
	for _, f := range findings {
		add(f.Fix)
	}
	if read("/proc/sys/kernel/unprivileged_userns_clone") == "0" {
		add(sysctl("kernel.unprivileged_userns_clone", "1"))
	}
	if read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
		add(profile(program()))
	}
	return all
}

// program is the path of this program, or empty.
func program() string {
	path, err := os.Executable()
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return ""
	}
	return path
}

// Commands are what root would type to install it.
func (f Fix) Commands() string {
	return fmt.Sprintf("# %s\ncat >%s <<'END'\n%sEND\n%s\n", f.What, f.File, f.Content, strings.Join(f.Apply, " "))
}

// Install installs it, below root ("" is the machine's own). A file that is there with
// another content is not replaced: somebody else may have written it.
func (f Fix) Install(ctx context.Context, root string) error {
	file := filepath.Join(root, f.File)
	if old, err := os.ReadFile(file); err == nil && string(old) != f.Content {
		return fmt.Errorf("%s is there with another content: look at it, and remove it or put this into it:\n%s", file, f.Content)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(file, []byte(f.Content), 0o644); err != nil {
		return fmt.Errorf("%w (run it as root)", err)
	}
	out, err := exec.CommandContext(ctx, f.Apply[0], f.Apply[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s was written, but %s failed: %w: %s", file, strings.Join(f.Apply, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// ReadText is the text of a file of the system, without the space around it; "" if it
// cannot be read.
func ReadText(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
