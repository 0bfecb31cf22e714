package approval

import "slices"

// gitDir is where a repository keeps what git does.
const gitDir = ".git"

// entries are names in a working folder from which programs run outside of any sandbox, without
// being asked for: when somebody enters the folder, opens it in an editor, or starts an agent there.
var entries = []string{
	// shells, and what runs when a shell enters a directory
	".bash_login", ".bash_logout", ".bash_profile", ".bashrc", ".cshrc", ".envrc", ".inputrc", ".kshrc", ".login", ".mise", ".mise.local.toml", ".mise.toml",
	".profile", ".tcshrc", ".zlogin", ".zlogout", ".zprofile", ".zshenv", ".zshrc", "mise.local.toml", "mise.toml",
	// editors
	".devcontainer", ".dir-locals.el", ".emacs", ".exrc", ".fleet", ".gvimrc", ".helix", ".idea", ".lvimrc", ".nvim.lua", ".nvimrc", ".vim",
	".vimrc", ".vscode", ".zed",
	// agents
	".aider.conf.yml", ".amazonq", ".augment", ".claude", ".codex", ".continue", ".crush.json", ".cursor", ".factory", ".gemini", ".kiro", ".mcp.json", ".opencode", ".qwen", ".roo",
	".windsurf", "crush.json", "opencode.json", "opencode.jsonc",
}

// deeper are such names of two parts: hooks of agents, in directories that hold other things, too.
var deeper = [][2]string{{".clinerules", "hooks"}, {".github", "hooks"}}

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
	if len(names) > 1 && slices.Contains(deeper, [2]string{names[0], names[1]}) {
		return 0, 2, true
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
	switch names[0] {
	case "modules": // of submodules, whose names may have slashes, and be "refs" or "logs": so a submodule's branch that is called "hooks" is protected, too
		for at = 1; at < len(names) && !slices.Contains(ofGit, names[at]); at++ {
		}
	case "worktrees":
		at = 2
	}
	if at >= len(names) || !slices.Contains(ofGit, names[at]) {
		return 0, false
	}
	if names[at] == "hooks" && at+2 == len(names) && len(names[at+1]) > len(sample) && names[at+1][len(names[at+1])-len(sample):] == sample {
		return 0, false
	}
	return at + 1, true
}

// Carries reports whether protected entries lie, or would lie, in a directory of that name, which is not one itself: another directory is not put in its place, and it is not moved
// away, without a decision. from is as in [Entry].
func Carries(names []string) (from int, ok bool) {
	if len(names) == 1 && slices.ContainsFunc(deeper, func(d [2]string) bool { return d[0] == names[0] }) {
		return 0, true
	}
	i := slices.Index(names, gitDir)
	if i < 0 || len(names) == i+1 {
		return 0, false
	}
	return i, names[i+1] == "modules" || names[i+1] == "worktrees" && len(names) <= i+3
}

const sample = ".sample"
