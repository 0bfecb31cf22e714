package approval

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/messages/lexical"
)

// Bounds of what is read of git's configuration.
const (
	maxGitFiles   = 32
	maxGitTargets = 64
)

// Targets are the files and directories of a working folder, as names from the folder down, that git's configuration sends git to: the directory of hooks (core.hooksPath), and
// files that are included (include.path, includeIf), which can name programs. It reads the repository's configuration and the user's, as git does. What cannot be read has none.
func Targets(folder string) [][]string { return readGit(folder).targets }

// GitFiles are the files that [Targets] reads, also those that are not there. For a worktree or a submodule, those that lead to its repository's are among them.
func GitFiles(folder string) []string { return readGit(folder).seen }

func readGit(folder string) (g gitConfig) {
	var err error
	if g.folder, err = filepath.EvalSymlinks(folder); err != nil {
		return gitConfig{}
	}
	g.home, _ = os.UserHomeDir()
	for _, file := range g.roots() {
		g.read(file)
	}
	return g
}

// gitConfig is what is known of git's configuration.
type gitConfig struct {
	folder, home string
	seen         []string // files
	targets      [][]string
}

// roots are the files that git reads first.
func (g *gitConfig) roots() []string {
	roots := []string{"/etc/gitconfig"}
	if xdg := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(xdg) {
		roots = append(roots, filepath.Join(xdg, "git", "config"))
	} else if g.home != "" {
		roots = append(roots, filepath.Join(g.home, ".config", "git", "config"))
	}
	if g.home != "" {
		roots = append(roots, filepath.Join(g.home, ".gitconfig"))
	}
	dir := filepath.Join(g.folder, gitDir)
	if text, _, err := hostfs.ReadRegular(dir, int64(hostfs.RegularSettings().Bytes), false); err == nil { // of a worktree or a submodule
		to, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
		if !ok {
			return roots
		}
		dir = g.from(g.folder, to)
	}
	common := dir
	if text, _, err := hostfs.ReadRegular(filepath.Join(dir, "commondir"), int64(hostfs.RegularSettings().Bytes), false); err == nil {
		common = g.from(dir, strings.TrimSpace(string(text)))
	}
	return append(roots, filepath.Join(common, "config"), filepath.Join(dir, "config.worktree"))
}

// from is where a path leads that is named in a directory.
func (g *gitConfig) from(dir, path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(g.home, rest)
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// read takes what a file says, and what those that it includes say.
func (g *gitConfig) read(file string) {
	if len(g.seen) >= maxGitFiles || slices.Contains(g.seen, file) {
		return
	}
	g.seen = append(g.seen, file)
	text, _, err := hostfs.ReadRegular(file, int64(hostfs.RegularSettings().Bytes), true)
	if err != nil {
		return
	}
	for _, s := range gitSettings(string(text)) {
		switch s.key {
		case "core.hookspath":
			g.add(g.from(g.folder, s.value))
		case "include.path", "includeif.path":
			included := g.from(filepath.Dir(file), s.value)
			g.add(included)
			g.read(included)
		}
	}
}

// add notes a path if it is in the folder, by its name and by where this leads.
func (g *gitConfig) add(path string) {
	paths := []string{path}
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		paths = append(paths, real)
	}
	for _, p := range paths {
		if rel, in := lexical.Rel(g.folder, p); in && rel != "." && len(g.targets) < maxGitTargets {
			g.targets = append(g.targets, strings.Split(rel, string(filepath.Separator)))
		}
	}
}

// gitSetting is a key of git's configuration, in small letters without a subsection, and its value.
type gitSetting struct{ key, value string }

// gitSettings reads a file as git does: sections, subsections in quotes, comments, values in quotes, lines that go on after a backslash.
func gitSettings(text string) (out []gitSetting) {
	section := ""
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	for text != "" {
		text = strings.TrimLeft(text, " \t\n")
		switch {
		case text == "":
		case text[0] == '#', text[0] == ';':
			_, text, _ = strings.Cut(text, "\n")
		case text[0] == '[':
			section, text = gitSection(text[1:])
		default:
			end := strings.IndexAny(text, "=\n")
			if end < 0 || text[end] == '\n' { // a key without a value
				_, text, _ = strings.Cut(text, "\n")
				continue
			}
			key := strings.ToLower(strings.TrimSpace(text[:end]))
			var value string
			value, text = gitValue(text[end+1:])
			if section != "" {
				out = append(out, gitSetting{section + "." + key, value})
			}
		}
	}
	return out
}

// gitSection is the name of a section, and what stands behind its bracket. A bracket in a subsection's quotes is a part of that.
func gitSection(text string) (name, rest string) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n':
			return "", text[i:]
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ']' && !quoted:
			name, _, _ = strings.Cut(text[:i], " ")
			name, _, _ = strings.Cut(name, ".") // [section.subsection], of old
			return strings.ToLower(strings.TrimSpace(name)), text[i+1:]
		}
	}
	return "", ""
}

// gitValue is a value, and what stands on the lines below it. A backslash at the end of the file is one at the end of a line.
func gitValue(text string) (value, rest string) {
	var b strings.Builder
	kept, quoted := 0, false // blanks at both ends do not count, unless they are in quotes or before a backslash
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\n':
			return b.String()[:kept], text[i+1:]
		case !quoted && (c == '#' || c == ';'):
			_, rest, _ = strings.Cut(text[i:], "\n")
			return b.String()[:kept], rest
		case c == '"':
			quoted = !quoted
			kept = b.Len()
			continue
		case c == '\\':
			if i++; i < len(text) && text[i] != '\n' {
				b.WriteByte(map[byte]byte{'n': '\n', 't': '\t', 'b': '\b', '"': '"', '\\': '\\'}[text[i]])
			}
			kept = b.Len()
			continue
		}
		blank := !quoted && (c == ' ' || c == '\t')
		if blank && b.Len() == 0 {
			continue
		}
		b.WriteByte(c)
		if !blank {
			kept = b.Len()
		}
	}
	return b.String()[:kept], ""
}
