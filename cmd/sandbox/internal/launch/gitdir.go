package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/messages/lexical"
)

// withGitDirectories adds the git directories of worktrees and submodules, which lie
// outside of their folders, and says so. What cannot be joined is said, too: the folders
// are usable without, only git cannot write.
func (l *Launcher) withGitDirectories(dirs []api.Directory) []api.Directory {
	if _, lacks := hypervisor.Lacks(l.Conf.Isolation, "git directories"); lacks {
		return dirs
	}
	all := slices.Clone(dirs)
	for _, d := range dirs {
		if d.ReadOnly {
			continue
		}
		path, err := GitDirectory(d.Path)
		if path == "" && err == nil || slices.ContainsFunc(all, func(o api.Directory) bool { return lexical.Within(path, o.Path) }) {
			continue
		}
		if err == nil {
			err = l.joinGitDirectory(&all, path)
		}
		if err != nil {
			l.Remark(fmt.Sprintf("sandbox: git cannot write in %s: %v", console.Shown(d.Path), err))
			continue
		}
		l.Remark(fmt.Sprintf("sandbox: %s, the git directory of %s, is a working folder, too", console.Shown(path), console.Shown(d.Path)))
	}
	return withRepositories(all)
}

// withRepositories says which folders belong together.
func withRepositories(dirs []api.Directory) []api.Directory {
	for i, d := range dirs {
		path, err := GitDirectory(d.Path)
		at := slices.IndexFunc(dirs, func(o api.Directory) bool { return o.Path == path })
		if path != "" && err == nil && at >= 0 {
			dirs[i].Repository, dirs[at].Repository = path, path
		}
	}
	return dirs
}

// joinGitDirectory adds one, if no session has it.
func (l *Launcher) joinGitDirectory(all *[]api.Directory, path string) error {
	if len(*all) >= messages.MaxDirectories {
		return fmt.Errorf("%s would be one folder too many", path)
	}
	running, err := l.Sessions()
	if err != nil {
		return err
	}
	for _, s := range running {
		for _, dir := range s.Directories {
			if lexical.Within(path, dir) || lexical.Within(dir, path) {
				return fmt.Errorf("session %s (process %d) has its git directory %s open: end that session, or have one for all its worktrees (--working-dir, once for each)",
					s.Session, s.PID, path)
			}
		}
	}
	for _, d := range *all {
		if lexical.Within(d.Path, path) {
			return fmt.Errorf("its git directory %s has %s in it", path, d.Path)
		}
	}
	d, err := actors.ValidateDirectory(api.Directory{Path: path}, "")
	if err != nil {
		return err
	}
	*all = append(*all, d)
	return nil
}

// RepositoryAbove is the directory above all of the folders whose repository a program in dir finds; empty if there is none, or if it
// finds one in a folder.
func RepositoryAbove(dir string, folders []string) string {
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			if len(folders) == 0 || slices.ContainsFunc(folders, func(folder string) bool { return lexical.Within(at, folder) }) {
				return ""
			}
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}
