package serve

import (
	"slices"
	"strings"
)

// systemTool classifies programs that look at or change the system.
func systemTool(name string, w []word) (Class, bool) {
	v := verb(w)
	read := func(is bool) (Class, bool) {
		if is {
			return ReadOnly, true
		}
		return WriteClass, true
	}
	switch name {
	case "date":
		return read(!has(w, "s", "--set"))
	case "hostname", "domainname":
		return read(v == "")
	case "mount", "swapon", "ifconfig":
		return read(len(w) == 1)
	case "lsof", "fuser":
		return read(!has(w, "k"))
	case "dmesg":
		return read(!has(w, "c", "C", "n", "D", "E", "--clear", "--read-clear"))
	case "sysctl":
		return read(!has(w, "w", "p", "--system") && !strings.Contains(v, "="))
	case "ip":
		o := operands(w)
		for _, a := range o {
			switch a.text {
			case "add", "del", "delete", "set", "flush", "change", "replace", "append", "exec", "restore":
				return WriteClass, true
			}
		}
		return read(len(o) > 0 && !has(w, "batch", "force"))
	case "crontab":
		if has(w, "r") {
			return Destructive, true
		}
		return read(has(w, "l"))
	case "iptables", "ip6tables", "nft":
		if has(w, "F", "X") || v == "flush" {
			return Destructive, true
		}
		return read(has(w, "L", "S") || v == "list")
	case "systemctl":
		return read(slices.Contains([]string{"", "status", "show", "cat", "list-units", "list-unit-files", "list-timers", "list-sockets", "list-dependencies", "is-active", "is-enabled", "is-failed", "get-default", "help"}, v))
	case "journalctl":
		if has(w, "--vacuum-size", "--vacuum-time", "--vacuum-files") {
			return Destructive, true
		}
		return read(!has(w, "--rotate", "--flush", "--sync"))
	case "apt", "apt-get", "apt-cache", "aptitude", "dnf", "yum", "zypper", "apk", "brew", "port", "snap", "flatpak", "pacman":
		switch v {
		case "list", "search", "show", "policy", "info", "depends", "rdepends", "provides", "whatprovides", "repolist", "outdated", "deps", "leaves", "config", "doctor":
			return ReadOnly, true
		case "remove", "purge", "autoremove", "uninstall", "erase", "del", "rm", "zap":
			return Destructive, true
		}
		if name == "pacman" && has(w, "R") {
			return Destructive, true
		}
		return read(name == "pacman" && has(w, "Q") || name == "apt-cache" || has(w, "--version"))
	case "dpkg", "dpkg-query", "rpm":
		if has(w, "r", "P", "--remove", "--purge") && name == "dpkg" || name == "rpm" && (has(w, "e", "--erase")) {
			return Destructive, true
		}
		return read(name == "dpkg-query" || has(w, "l", "L", "s", "S", "--list", "--listfiles", "--status", "--search", "--version") && name == "dpkg" || name == "rpm" && has(w, "q", "V", "--query"))
	}
	return WriteClass, false
}

// developerTool classifies version control, package managers and the like.
func (e *evaluation) developerTool(name string, w []word) (Class, string, bool) {
	if name == "git" {
		class, why := e.git(w)
		return class, why, true
	}
	o := operands(w)
	v, v2 := verb(w), ""
	if len(o) > 1 {
		v2 = o[1].text
	}
	is := func(words ...string) bool { return slices.Contains(words, v) }
	is2 := func(words ...string) bool { return slices.Contains(words, v2) }
	if len(w) == 2 && (w[1].text == "--version" || w[1].text == "-V" || w[1].text == "--help") && versioned(name) {
		return ReadOnly, "", true
	}
	read, destroy := false, false
	switch name {
	case "go":
		read = is("version", "list", "doc", "help", "vet") || is("env") && !has(w, "w", "u")
	case "cargo":
		read = is("tree", "metadata", "search", "version", "locate-project", "pkgid", "verify-project", "help", "info") || is("fmt") && has(w, "--check")
		destroy = is("yank") || is("owner") && has(w, "r", "--remove")
	case "npm", "pnpm", "yarn", "bun":
		read = is("ls", "list", "ll", "view", "show", "info", "outdated", "search", "explain", "why", "root", "prefix", "bin", "help", "whoami", "ping", "doctor", "fund") ||
			is("audit") && v2 == "" && !has(w, "--fix") || is("config") && is2("get", "list", "ls") || is("version") && v2 == "" && name != "yarn"
		destroy = is("unpublish", "deprecate")
	case "pip", "pip3", "pipx", "uv", "poetry", "conda", "mamba", "gem", "bundle", "composer":
		read = is("list", "show", "freeze", "check", "search", "help", "info", "debug", "outdated", "licenses") && name != "uv" && name != "bundle" || is("env") && name == "gem" ||
			name == "uv" && (is("tree", "version") || is("pip") && is2("list", "show", "freeze", "check", "tree")) || name == "bundle" && is("list", "info", "show", "outdated")
		destroy = name == "gem" && is("yank")
	case "docker", "podman", "nerdctl", "buildah":
		read = is("ps", "images", "logs", "inspect", "version", "info", "top", "stats", "diff", "port", "history", "search", "events") ||
			is("image", "container", "volume", "network", "compose", "system", "context") && is2("ls", "list", "ps", "inspect", "logs", "images", "df", "info", "config", "top", "port", "show", "history")
		destroy = is("rm", "rmi", "kill", "prune") || is2("rm", "prune", "remove", "kill") || is("compose") && is2("down")
	case "docker-compose":
		read, destroy = is("ps", "logs", "config", "images", "top", "port", "version"), is("down", "rm", "kill")
	case "kubectl", "oc":
		read = is("get", "describe", "logs", "top", "explain", "version", "cluster-info", "api-resources", "api-versions", "diff") || is("config") && is2("view", "get-contexts", "current-context") || is("auth") && is2("can-i")
		destroy = is("delete", "drain") || is("replace") && has(w, "--force")
	case "helm":
		read = is("list", "ls", "status", "get", "history", "show", "search", "template", "lint", "version", "env")
		destroy = is("uninstall", "delete")
	case "terraform", "tofu", "pulumi":
		read = is("plan", "show", "validate", "output", "version", "providers", "graph", "preview", "stack") && !has(w, "-out") || is("state") && is2("list", "show") || is("fmt") && has(w, "-check")
		destroy = is("destroy") || has(w, "-destroy", "--destroy") || is("state") && is2("rm")
	case "aws", "gcloud", "az":
		for _, a := range o {
			destroy = destroy || a.text == "rm" || a.text == "rb" || strings.HasPrefix(a.text, "delete") || strings.HasPrefix(a.text, "terminate") || a.text == "purge"
		}
		read = len(o) > 1 && (strings.HasPrefix(v2, "describe-") || strings.HasPrefix(v2, "list-") || v2 == "ls" || name != "aws" && slices.Contains([]string{"list", "describe", "show"}, o[len(o)-1].text))
	case "gh", "glab":
		read = is("pr", "issue", "repo", "run", "release", "workflow", "gist", "label", "mr", "ci") && is2("view", "list", "diff", "status", "checks") || is("auth") && is2("status") || is("search", "status")
		destroy = is2("delete", "delete-asset", "archive")
	case "hg", "svn", "jj", "fossil":
		read = is("status", "st", "log", "diff", "cat", "annotate", "blame", "info", "list", "ls", "show", "help", "paths", "heads", "branches", "tags", "parents", "identify", "id")
		destroy = is("purge", "revert", "strip", "rollback", "abandon")
	default:
		return WriteClass, "", false
	}
	switch {
	case destroy:
		return Destructive, named(name, v, v2) + " deletes or discards", true
	case read:
		return ReadOnly, "", true
	}
	return WriteClass, named(name, v) + " writes, or runs code", true
}

// named is a tool and what it is asked to do, as a reason shows them.
func named(tool string, verbs ...string) string {
	for _, v := range verbs {
		if v != "" {
			tool += " " + shown(v)
		}
	}
	return tool
}

// versioned are programs that print their version and do nothing else.
func versioned(name string) bool {
	switch name {
	case "go", "cargo", "rustc", "npm", "pnpm", "yarn", "bun", "node", "python", "python3", "pip", "pip3", "ruby", "perl", "php", "java", "javac", "gcc", "g++", "clang", "cc",
		"make", "cmake", "ninja", "docker", "podman", "kubectl", "helm", "terraform", "gh", "uv", "poetry", "deno", "tsc", "npx", "pytest", "mvn", "gradle", "dotnet", "swift", "zig":
		return true
	}
	return false
}
