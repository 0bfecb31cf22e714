package jail

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/codeagent/sandbox/messages/lexical"
)

// dynamicView is what a jail that asks begins with. All paths are absolute, clean and without symlinks.
type dynamicView struct {
	// Gates are the directories whose names a person has to allow, each before those in it.
	Gates []string
	// Empty are directories of the root that have nothing in them.
	Empty []string
	// Open are directories in the gates that are there from the start, with all in them.
	Open []string
	// Ways are directories in the gates that can be searched without a question.
	Ways []string
	// Allowed are files and directories in the gates that nobody is asked about.
	Allowed []string
}

// dynamicOptions are what a view depends on.
type dynamicOptions struct {
	// Root is the root directory; other paths are below it. Empty: /.
	Root string
	// Home is the home directory, or empty.
	Home string
	// Getenv is the environment that commands get; its PATH names tool chains.
	Getenv func(string) string
	// Blocked reports whether commands may not search a directory: then nothing in it is seen anyway.
	Blocked func(dir string) bool
	// Show are paths that somebody wants to be seen.
	Show []string
}

// system are the directories of the root that programs need.
var system = []string{
	"bin", "boot", "dev", "etc", "gnu", "lib", "lib32", "lib64", "libexec", "libx32", "nix", "proc", "run", "sbin", "snap", "sys", "tmp", "usr",
}

// variable are the directories in /var that programs of the system need.
var variable = []string{
	"/var/cache", "/var/empty", "/var/lib/alternatives", "/var/lib/apt", "/var/lib/dpkg", "/var/lib/flatpak", "/var/lib/gems", "/var/lib/ghc", "/var/lib/pacman",
	"/var/lib/python", "/var/lib/rpm", "/var/lib/sgml-base", "/var/lib/snapd", "/var/lib/texmf", "/var/lib/ucf", "/var/lib/vim", "/var/lib/xml-core", "/var/lib/xkb",
}

// dynamicLinks are symlinks in /var that lead to what is made for the session.
var dynamicLinks = []string{"/var/lock", "/var/run"}

// chains are where version managers and their like keep tool chains, in the home directory.
var chains = []string{
	".asdf", ".bun", ".cargo/bin", ".dotnet", ".deno", ".fnm", ".ghcup", ".goenv", ".juliaup", ".local/bin", ".local/lib", ".local/pipx", ".local/share/fnm", ".local/share/mise",
	".local/share/pipx", ".local/share/uv", ".local/share/virtualenvs", ".nix-profile", ".nodenv", ".nvm", ".opam", ".phpenv", ".pyenv", ".rbenv", ".rustup", ".rvm", ".sdkman", ".stack",
	".volta", "anaconda3", "go/bin", "miniconda3", "miniforge3", "sdk",
}

// variables name tool chains.
var variables = []string{
	"ANDROID_HOME", "ASDF_DATA_DIR", "CONDA_PREFIX", "DOTNET_ROOT", "GOBIN", "GOROOT", "JAVA_HOME", "NVM_DIR", "PYENV_ROOT", "RBENV_ROOT", "RUSTUP_HOME", "SDKMAN_DIR", "VIRTUAL_ENV", "VOLTA_HOME",
}

// settings are files and directories in the home directory that shells, git, editors and compilers
// read at their start. Those that often hold secrets (.npmrc, .netrc, pip.conf) are not among them.
var settings = []string{
	".bash_aliases", ".bash_login", ".bash_logout", ".bash_profile", ".bashrc", ".clang-format", ".config/git/attributes", ".config/git/config", ".config/git/ignore", ".config/go/env", ".config/nvim",
	".editorconfig", ".gitconfig", ".gitignore", ".gitignore_global", ".inputrc", ".profile", ".terminfo", ".tmux.conf", ".vim", ".vimrc", ".zlogin", ".zlogout", ".zprofile", ".zshenv", ".zshrc",
}

// ways are directories in the home directory in which many programs look for their own: a question is about what
// they find there.
var ways = []string{".cache", ".config", ".local", ".local/share", ".local/state"}

// dynamicOf works out the view.
func dynamicOf(o dynamicOptions) dynamicView {
	if o.Root == "" {
		o.Root = "/"
	}
	var v dynamicView
	v.gates(o)
	open := slices.Clone(variable)
	for i, path := range open {
		open[i] = filepath.Join(o.Root, path)
	}
	if o.Home != "" {
		open = append(open, inside(o.Home, chains)...)
	}
	for _, name := range variables {
		open = append(open, o.Getenv(name))
	}
	for _, dir := range filepath.SplitList(o.Getenv("PATH")) {
		open = append(open, o.chain(dir))
	}
	for _, path := range append(open, o.Show...) {
		v.open(o, path)
	}
	for _, path := range dynamicLinks {
		v.allow(filepath.Join(o.Root, path))
	}
	if o.Home != "" {
		for _, path := range inside(o.Home, settings) {
			v.allow(path)
		}
		v.Ways = inside(o.Home, ways)
	}
	v.Open = outermost(v.Open)
	slices.Sort(v.Allowed)
	v.Allowed = slices.Compact(v.Allowed)
	return v
}

// gates finds the directories of the root, and the home directory.
func (v *dynamicView) gates(o dynamicOptions) {
	entries, err := os.ReadDir(o.Root)
	if err != nil {
		return // nothing is seen there by anybody
	}
	for _, e := range entries {
		path := filepath.Join(o.Root, e.Name())
		if !e.IsDir() || slices.Contains(system, e.Name()) || o.Blocked(path) {
			continue
		}
		if in, err := os.ReadDir(path); err == nil && len(in) == 0 {
			v.Empty = append(v.Empty, path)
			continue
		}
		v.Gates = append(v.Gates, path)
	}
	if home, ok := o.real(o.Home); ok && v.gate(home) != "" && !o.Blocked(home) {
		v.Gates = append(v.Gates, home)
	}
}

// gate returns a gate that a path lies strictly below, or empty.
func (v *dynamicView) gate(path string) string {
	for _, g := range v.Gates {
		if lexical.Below(path, g) {
			return g
		}
	}
	return ""
}

// open adds a directory, or a file, that is there from the start if it lies in a gate. Gates themselves do not.
func (v *dynamicView) open(o dynamicOptions, path string) {
	path, ok := o.real(path)
	if !ok || v.gate(path) == "" || slices.ContainsFunc(v.Gates, func(g string) bool { return lexical.Within(g, path) }) {
		return
	}
	if st, err := os.Stat(path); err != nil || !st.IsDir() {
		v.allow(path)
		return
	}
	if !o.Blocked(path) {
		v.Open = append(v.Open, path)
	}
}

// allow adds a path that nobody is asked about. A symlink's target is a path of its own.
func (v *dynamicView) allow(path string) {
	for range 8 { // as many links as anybody chains
		if v.gate(path) == "" {
			return
		}
		st, err := os.Lstat(path)
		if err != nil {
			return
		}
		v.Allowed = append(v.Allowed, path)
		if st.Mode()&os.ModeSymlink == 0 {
			return
		}
		target, err := os.Readlink(path)
		if err != nil {
			return
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
}

// chain is the tool chain to which a directory of PATH belongs: what programs there need
// lies beside it.
func (o dynamicOptions) chain(dir string) string {
	parent, ok := o.real(filepath.Dir(dir))
	if !ok || parent == o.Home || parent == filepath.Join(o.Home, ".local") || filepath.Dir(parent) == o.Root || !slices.Contains([]string{"bin", "sbin", "shims", "condabin"}, filepath.Base(dir)) {
		return dir
	}
	for _, beside := range []string{"include", "lib", "lib64", "libexec", "pyvenv.cfg", "share", "versions"} {
		if _, err := os.Lstat(filepath.Join(parent, beside)); err == nil {
			return parent
		}
	}
	return dir
}

// real is a path without symlinks, if there is something.
func (o dynamicOptions) real(path string) (string, bool) {
	if !filepath.IsAbs(path) {
		return "", false
	}
	real, err := filepath.EvalSymlinks(path)
	return real, err == nil
}

func inside(dir string, names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = filepath.Join(dir, name)
	}
	return out
}

// outermost drops what lies in another one.
func outermost(paths []string) []string {
	slices.Sort(paths)
	var out []string
	for _, p := range paths {
		if !slices.ContainsFunc(out, func(o string) bool { return lexical.Within(p, o) }) {
			out = append(out, p)
		}
	}
	return out
}
