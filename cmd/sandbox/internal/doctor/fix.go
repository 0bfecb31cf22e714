package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// sysctlFile keeps settings of the kernel.
const sysctlFile = "/etc/sysctl.d/60-sandbox.conf"

// sysctl sets a key of the kernel.
func sysctl(key, value string) *Fix {
	return &Fix{
		What: "allow user namespaces: " + key + "=" + value, File: sysctlFile,
		Content: key + " = " + value + "\n", Apply: []string{"sysctl", "-q", "-p", sysctlFile},
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
