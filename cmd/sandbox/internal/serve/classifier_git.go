package serve

import (
	"slices"
	"strings"
)

// git classifies a git command.
func (e *evaluation) git(w []word) (Class, string) {
	rest, class := e.gitCommand(w)
	if len(rest) == 0 {
		return class, ""
	}
	v := rest[0].text
	o := operands(rest)
	if rest[0].computed {
		return WriteClass, "git's command is computed"
	}
	if why := gitDestroys(v, rest, o); why != "" {
		return Destructive, "git " + v + " " + why
	}
	if gitReads(v, rest, o) {
		return class, ""
	}
	if v == "config" {
		for _, a := range o {
			t := strings.ToLower(a.text)
			if t == "core.hookspath" || strings.HasPrefix(t, "alias.") || t == "core.fsmonitor" || t == "core.sshcommand" || t == "core.pager" || t == "core.editor" {
				e.c.warn(WarnGitHook, "git runs what is set: "+shown(a.text))
			}
		}
	}
	return WriteClass, "git " + shown(v) + " writes"
}

// gitCommand skips git's own options.
func (e *evaluation) gitCommand(w []word) ([]word, Class) {
	class := ReadOnly
	for i := 1; i < len(w); i++ {
		switch t := w[i].text; {
		case t == "-c" || t == "--config-env" || strings.HasPrefix(t, "--config-env="):
			class = WriteClass
			e.raise(WriteClass, "git is configured to behave differently")
			if t != "--config-env=" {
				i++
			}
		case t == "-C" || t == "--git-dir" || t == "--work-tree" || t == "--namespace" || t == "--super-prefix":
			i++
		case t == "--exec-path" || strings.HasPrefix(t, "--exec-path="):
			class = WriteClass
			e.raise(WriteClass, "git is told to run other programs")
		case t == "--version" || t == "--help" || t == "-h" || t == "-v":
			return nil, class
		case strings.HasPrefix(t, "-"):
		default:
			return w[i:], class
		}
	}
	return nil, class
}

// gitReads reports whether the command only reads.
func gitReads(v string, w, o []word) bool {
	first := ""
	if len(o) > 0 {
		first = o[0].text
	}
	is := func(words ...string) bool { return slices.Contains(words, first) }
	if has(w, "--output", "--open-files-in-pager", "--ext-diff", "--upload-pack", "--exec") {
		return false
	}
	switch v {
	case "status", "log", "diff", "show", "blame", "annotate", "ls-files", "ls-tree", "ls-remote", "rev-parse", "rev-list", "describe", "shortlog", "cat-file",
		"name-rev", "merge-base", "for-each-ref", "show-ref", "var", "version", "help", "whatchanged", "count-objects", "fsck", "check-ignore", "check-attr", "check-mailmap",
		"cherry", "diff-tree", "diff-index", "diff-files", "range-diff", "verify-commit", "verify-tag", "verify-pack", "merge-tree", "get-tar-commit-id", "show-branch", "stripspace", "patch-id":
		return true
	case "grep":
		return !has(w, "O")
	case "archive":
		return !has(w, "o")
	case "config":
		return has(w, "--get", "--get-all", "--get-regexp", "--list", "l", "--get-urlmatch") || is("get", "list") || len(w) == 2 && len(o) == 1
	case "branch":
		return len(o) == 0 && !has(w, "--edit-description", "u", "--unset-upstream") || has(w, "--list", "l", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
	case "tag":
		return len(o) == 0 || has(w, "l", "--list", "--contains", "--points-at", "v", "--verify")
	case "remote":
		return len(o) == 0 || is("show", "get-url")
	case "stash":
		return is("list", "show")
	case "reflog":
		return len(o) == 0 || is("show", "exists") || !is("expire", "delete")
	case "worktree", "notes", "submodule", "bisect", "bundle", "sparse-checkout", "lfs":
		return is("list", "show", "status", "summary", "log", "view", "verify", "list-heads", "ls-files", "env") || v == "notes" && len(o) == 0 || v == "submodule" && len(o) == 0
	case "symbolic-ref":
		return len(o) == 1 && !has(w, "d", "--delete")
	case "clean":
		return has(w, "n", "--dry-run")
	case "add", "commit", "push", "rm", "mv", "fetch", "prune":
		return has(w, "--dry-run") || v != "commit" && has(w, "n") && v != "fetch"
	case "apply":
		return has(w, "--check", "--stat", "--numstat", "--summary") && !has(w, "--apply")
	}
	return false
}

// gitDestroys says what the command discards, or nothing.
func gitDestroys(v string, w, o []word) string {
	first := ""
	if len(o) > 0 {
		first = o[0].text
	}
	switch v {
	case "push":
		if has(w, "--dry-run", "n") {
			return ""
		}
		if has(w, "f", "d", "--force", "--force-with-lease", "--force-if-includes", "--mirror", "--delete", "--prune") {
			return "overwrites or deletes what is in the remote repository"
		}
		for _, a := range o[min(1, len(o)):] {
			if strings.HasPrefix(a.text, "+") || strings.HasPrefix(a.text, ":") {
				return "overwrites or deletes what is in the remote repository"
			}
		}
	case "reset":
		if has(w, "--hard", "--merge", "--keep") {
			return "discards changes"
		}
	case "clean":
		if !has(w, "n", "--dry-run") {
			return "deletes files"
		}
	case "checkout":
		if has(w, "f", "--force", "--ours", "--theirs") || index(w, "--", ".") > 0 || first == "." {
			return "discards changes"
		}
	case "restore":
		if !has(w, "--staged", "S") || has(w, "--worktree", "W") {
			return "discards changes"
		}
	case "switch":
		if has(w, "f", "--force", "--discard-changes") {
			return "discards changes"
		}
	case "rm":
		if !has(w, "--cached", "n", "--dry-run") {
			return "deletes files"
		}
	case "branch":
		if has(w, "D", "d", "--delete") {
			return "deletes branches"
		}
	case "tag":
		if has(w, "d", "--delete") {
			return "deletes tags"
		}
	case "stash":
		if first == "drop" || first == "clear" {
			return "discards what is stashed"
		}
	case "reflog":
		if first == "expire" || first == "delete" {
			return "discards history"
		}
	case "gc":
		if has(w, "--prune") {
			return "discards objects"
		}
	case "update-ref":
		if has(w, "d", "--stdin") {
			return "deletes references"
		}
	case "worktree", "remote", "notes", "submodule":
		if first == "remove" || first == "rm" || first == "deinit" || first == "prune" {
			return "deletes"
		}
	case "prune":
		if !has(w, "n", "--dry-run") {
			return "discards objects"
		}
	case "filter-branch", "filter-repo", "read-tree":
		return "rewrites"
	case "lfs":
		if first == "prune" {
			return "discards objects"
		}
	}
	return ""
}
