package approval

import "slices"

// gitDir is where a repository keeps what git does.
const gitDir = ".git"

// entries are names in a working folder from which programs run outside of any sandbox, without
// being asked for: when somebody enters the folder, opens it in an editor, or starts an agent there.
var entries = []string{
	// shells, and what runs when a shell enters a directory
	".bash_login", ".bash_logout", ".bash_profile", ".bashrc", ".cshrc", ".envrc", ".inputrc", ".kshrc", ".login", ".mise.toml",
	".profile", ".tcshrc", ".zlogin", ".zlogout", ".zprofile", ".zshenv", ".zshrc",
	// editors
	".devcontainer", ".dir-locals.el", ".emacs", ".exrc", ".fleet", ".gvimrc", ".helix", ".idea", ".nvim.lua", ".nvimrc", ".vim",
	".vimrc", ".vscode", ".zed",
	// agents
	".aider.conf.yml", ".amazonq", ".claude", ".codex", ".continue", ".cursor", ".gemini", ".kiro", ".mcp.json", ".opencode", ".roo",
	".windsurf", "opencode.json", "opencode.jsonc",
}

// ofGit are names in a git directory that make git run programs.
var ofGit = []string{"commondir", "config", "config.worktree", "hooks"}

// Entry finds what of a working folder is protected from writing: names are the path's, from the
// folder down. names[:to] is the protected file or directory, and names[from] the first of its names
// that makes it one. ok is false if the path is not protected. In the folder itself all
// entries are protected, below it only git's and ".envrc". Sample hooks are not, git never runs them.
func Entry(names []string) (from, to int, ok bool) {
	if len(names) > 0 && slices.Contains(entries, names[0]) {
		return 0, 1, true
	}
	for i, name := range names {
		switch name {
		case ".envrc":
			return i, i + 1, true
		case gitDir:
			n, ok := git(names[i+1:])
			return i, i + 1 + n, ok
		}
	}
	return 0, 0, false
}

// git finds what is protected in a git directory: n of the names are its.
func git(names []string) (n int, ok bool) {
	if len(names) == 0 {
		return 0, true // the directory itself may not be another one
	}
	at := 0
	if names[0] == "modules" { // of submodules, whose names may have slashes
		for at = 1; at < len(names); at++ {
			if slices.Contains([]string{"logs", "objects", "refs"}, names[at]) {
				return 0, false
			}
			if slices.Contains(ofGit, names[at]) {
				break
			}
		}
	}
	if at == len(names) || !slices.Contains(ofGit, names[at]) {
		return 0, false
	}
	if names[at] == "hooks" && at+2 == len(names) && len(names[at+1]) > len(sample) && names[at+1][len(names[at+1])-len(sample):] == sample {
		return 0, false
	}
	return at + 1, true
}

const sample = ".sample"
