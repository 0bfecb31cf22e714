package launch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/messages/lexical"
)

// maxBytes bounds what is read of a file.
const maxBytes = 1 << 20

// GitDirectory is the directory, outside of a folder, that holds the repository of the
// folder's worktree or submodule. It is empty if there is none to find: the folder has a git
// directory of its own, or no .git at all. folder is absolute and has no symlinks; the result
// has none either. An error says what is wrong with a .git that leads out of the folder.
func GitDirectory(folder string) (string, error) {
	file := filepath.Join(folder, ".git")
	st, err := os.Lstat(file)
	if err != nil || !st.Mode().IsRegular() {
		return "", nil // none, a directory, or a symlink that we do not follow
	}
	text, _, err := hostfs.ReadRegular(file, maxBytes, false)
	if err != nil {
		return "", err
	}
	named, ok := pointer(text, folder)
	if !ok {
		return "", fmt.Errorf("%s is not 'gitdir: PATH'", file)
	}
	entry, err := filepath.EvalSymlinks(named)
	if err != nil {
		return "", fmt.Errorf("%s leads nowhere: %w", file, err)
	}
	if lexical.Within(entry, folder) {
		return "", nil
	}
	dir, err := repository(entry, folder, st)
	if err != nil {
		return "", fmt.Errorf("%s names %s, but %w", file, entry, err)
	}
	if lexical.Within(dir, folder) || lexical.Within(folder, dir) {
		return "", fmt.Errorf("%s names %s, but the folder and the git directory %s contain each other", file, entry, dir)
	}
	if err := sameOwner(dir, folder); err != nil {
		return "", err
	}
	return dir, nil
}

// repository finds the directory that an entry's repository is in. dotGit is the .git file
// that names the entry.
func repository(entry, folder string, dotGit fs.FileInfo) (string, error) {
	if _, err := os.Lstat(filepath.Join(entry, "commondir")); err == nil {
		text, _, err := hostfs.ReadRegular(filepath.Join(entry, "gitdir"), maxBytes, false)
		if err != nil {
			return "", fmt.Errorf("it does not name a worktree back: %w", err)
		}
		back, err := os.Lstat(absolute(strings.TrimRight(string(text), "\r\n"), entry))
		if err != nil || !os.SameFile(back, dotGit) {
			return "", errors.New("that is the entry of another worktree ('git worktree repair' mends it)")
		}
		dir := filepath.Dir(filepath.Dir(entry))
		if filepath.Base(filepath.Dir(entry)) != "worktrees" {
			return "", errors.New("that is no entry of a repository's worktrees")
		}
		text, _, err = hostfs.ReadRegular(filepath.Join(entry, "commondir"), maxBytes, false)
		if err != nil {
			return "", err
		}
		common, err := filepath.EvalSymlinks(absolute(strings.TrimRight(string(text), "\r\n"), entry))
		if err != nil || common != dir {
			return "", errors.New("the entry says that it belongs to another repository")
		}
		return dir, looksLike(dir)
	}
	text, _, err := hostfs.ReadRegular(filepath.Join(entry, "config"), maxBytes, false)
	if err != nil {
		return "", fmt.Errorf("that is no git directory: %w", err)
	}
	worktree, ok := coreWorktree(text)
	if !ok {
		return "", errors.New("its configuration names no worktree (core.worktree): name it with a second --working-dir")
	}
	have, err1 := os.Stat(absolute(worktree, entry))
	want, err2 := os.Stat(folder)
	if err1 != nil || err2 != nil || !os.SameFile(have, want) {
		return "", fmt.Errorf("that is the git directory of another folder, %s", absolute(worktree, entry))
	}
	return entry, looksLike(entry)
}

// looksLike finds out whether git would take dir for a repository.
func looksLike(dir string) error {
	head, err := os.Lstat(filepath.Join(dir, "HEAD"))
	if err != nil || head.IsDir() {
		return fmt.Errorf("%s is no git directory: it has no HEAD", dir)
	}
	for _, name := range []string{"objects", "refs"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || !st.IsDir() {
			return fmt.Errorf("%s is no git directory: it has no directory %s", dir, name)
		}
	}
	return nil
}

// pointer reads "gitdir: PATH".
func pointer(text []byte, folder string) (string, bool) {
	rest, ok := strings.CutPrefix(string(text), "gitdir: ")
	rest = strings.TrimRight(rest, "\r\n")
	if !ok || rest == "" || strings.ContainsAny(rest, "\x00\n") {
		return "", false
	}
	return absolute(rest, folder), true
}

func absolute(path, dir string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// coreWorktree reads core.worktree from a git configuration, the last of several. Of its
// syntax it knows what git itself writes: one line, perhaps in quotes.
func coreWorktree(text []byte) (value string, ok bool) {
	section := ""
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			section = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(line, "["), "]"))
			continue
		}
		key, v, found := strings.Cut(line, "=")
		if !found || section != "core" || strings.ToLower(strings.TrimSpace(key)) != "worktree" {
			continue
		}
		value, ok = strings.TrimSpace(v), true
		if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
			value = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(value[1 : len(value)-1])
		}
	}
	return value, ok && value != ""
}
