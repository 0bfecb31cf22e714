package serve

import (
	"strings"
)

// program classifies a program by its name and arguments. A program that is not
// here is Write. The rules are code rather than a table so that they cost
// nothing when the program starts.
func (e *evaluation) program(name string, w []word, depth int) (Class, string) {
	if k, ok := wrapped(name); ok {
		return e.wrapper(name, k, w, depth)
	}
	if isShell(name) {
		return e.shell(name, w, depth)
	}
	if class, ok := e.always(name); ok && hasPrefix(w, "--pre", "--pager", "-P") && class == ReadOnly && pages(name) {
		return WriteClass, name + " runs another program"
	} else if ok {
		if class == Destructive {
			e.deletes(name, w)
		}
		return class, ""
	}
	if class, why, ok := e.shellBuiltin(name, w, depth); ok {
		return class, why
	}
	if class, why, ok := e.fileTool(name, w, depth); ok {
		return class, why
	}
	if class, ok := systemTool(name, w); ok {
		return class, ""
	}
	if class, why, ok := e.developerTool(name, w); ok {
		return class, why
	}
	if strings.HasPrefix(name, "mkfs") || strings.HasPrefix(name, "newfs") {
		return Destructive, name + " makes a new file system"
	}
	return WriteClass, ""
}

// always are programs whose arguments do not matter.
func (e *evaluation) always(name string) (Class, bool) {
	switch name {
	case "ls", "dir", "vdir", "cat", "tac", "head", "tail", "less", "more", "most", "grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "wc", "nl", "od",
		"hexdump", "strings", "file", "stat", "readlink", "realpath", "basename", "dirname", "pwd", "cd", "pushd", "popd", "dirs", "echo",
		"true", "false", ":", "test", "[", "expr", "seq", "yes", "cal", "uname", "arch", "nproc", "uptime", "whoami", "id", "groups", "who",
		"w", "users", "last", "tty", "printenv", "locale", "ps", "pgrep", "pidof", "top", "htop", "free", "vmstat", "iostat", "df", "du", "lsblk", "lscpu", "lspci",
		"lsusb", "lsmod", "blkid", "findmnt", "getent", "dig", "nslookup", "host", "ping", "ping6", "traceroute", "tracepath", "whois", "ss", "netstat", "which",
		"whereis", "type", "man", "apropos", "whatis", "locate", "cmp", "diff", "diff3", "comm", "join", "paste", "cut", "tr", "rev",
		"fold", "fmt", "column", "expand", "unexpand", "pr", "tsort", "md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum", "b3sum",
		"cksum", "sum", "md5", "shasum", "jq", "nm", "objdump", "readelf", "size", "addr2line", "c++filt", "sleep", "wait", "jobs", "read", "shift", "return",
		"exit", "break", "continue", "let", "getopts", "zcat", "bzcat", "xzcat", "zstdcat", "lz4cat", "zless", "tokei", "cloc", "scc", "tput", "clear", "fc-list",
		"numfmt", "factor", "base32", "base64", "basenc", "logname", "pathchk", "sync", "lsattr", "getfacl", "getfattr", "lsns", "namei", "look",
		"units", "bc", "case", "for", "select", "tldr", "exa", "eza", "lsd", "pstree", "lsipc",
		"colordiff", "wdiff", "difft", "zipinfo", "lsinitramfs", "readonly", "local", "declare", "typeset", "unset", "umask", "ulimit", "times":
		return ReadOnly, true
	case "rm", "rmdir", "unlink", "shred", "srm", "wipe", "wipefs", "blkdiscard", "fdisk", "sfdisk", "gdisk", "sgdisk", "parted", "mkswap", "truncate", "trash", "trash-put", "rimraf",
		"shutdown", "reboot", "halt", "poweroff", "userdel", "groupdel", "deluser", "lvremove", "vgremove", "pvremove", "bfg", "git-filter-repo":
		return Destructive, true
	}
	return WriteClass, false
}

// pages are programs with an option that runs another one.
func pages(name string) bool {
	switch name {
	case "rg", "ag", "ack", "man":
		return true
	}
	return false
}

// deletes warns of what is too much.
func (e *evaluation) deletes(name string, w []word) {
	if name != "rm" && name != "shred" && name != "rimraf" && name != "trash" {
		return
	}
	recursive := name == "rimraf" || has(w, "r", "R", "--recursive") || has(w, "--no-preserve-root")
	for _, o := range operands(w) {
		t := strings.TrimRight(strings.TrimSuffix(o.text, "*"), "/")
		broad := t == "" || t == "~" || t == "$HOME" || t == "${HOME}" || t == "." || t == ".."
		if strings.Count(t, "/") == 1 && t[0] == '/' && len(t) > 1 { // /usr, /home
			broad = broad || t != "/tmp"
		}
		switch {
		case broad && recursive:
			e.c.warn(WarnBroadDelete, "deletes everything in "+shown(o.text))
		case recursive && strings.HasPrefix(o.text, "$") && o.computed:
			e.c.warn(WarnBroadDelete, "deletes what is computed: "+shown(o.text))
		}
	}
}

// shellBuiltin classifies the shell's own commands that run something.
func (e *evaluation) shellBuiltin(name string, w []word, depth int) (Class, string, bool) {
	switch name {
	case "eval":
		text, computed := word{}, false
		var all strings.Builder
		for i, a := range w[1:] {
			if i > 0 {
				all.WriteByte(' ')
			}
			all.WriteString(a.text)
			computed = computed || a.computed
			text.source = text.or(a.source)
		}
		text.text, text.computed = all.String(), computed
		e.script(text, depth)
		return ReadOnly, "", true
	case "trap":
		if o := operands(w); len(o) > 1 {
			e.script(o[0], depth)
		}
		return ReadOnly, "", true
	case "source", ".":
		if len(w) > 1 {
			e.fed(w[1])
		}
		return WriteClass, name + " runs a file", true
	case "export", "alias":
		for _, a := range w[1:] {
			if assignment(a.text) {
				e.assign(a.text)
			}
			if name == "alias" && strings.Contains(a.text, "=") {
				_, v, _ := strings.Cut(a.text, "=")
				e.script(word{text: v, computed: a.computed}, depth)
			}
		}
		return ReadOnly, "", true
	case "set", "shopt", "bind", "enable", "hash", "complete", "history", "fc", "printf", "mapfile", "readarray":
		if name == "history" && has(w, "c", "d", "w", "a") || name == "enable" && has(w, "f") || name == "fc" && !has(w, "l") {
			return WriteClass, "", true
		}
		return ReadOnly, "", true
	case "kill":
		if has(w, "l", "--list") || index(w, "-0") == 1 {
			return ReadOnly, "", true
		}
		return WriteClass, "kill ends processes", true
	}
	return WriteClass, "", false
}

// fileTool classifies programs that work on files.
func (e *evaluation) fileTool(name string, w []word, depth int) (Class, string, bool) {
	class, why := ReadOnly, ""
	writes := func(is bool) {
		if is {
			class = WriteClass
		}
	}
	switch name {
	case "find", "gfind":
		class, why = e.find(w, depth)
	case "fd", "fdfind":
		if i := index(w, "-x", "-X", "--exec", "--exec-batch"); i >= 0 {
			e.words(w[i+1:], depth+1)
		}
	case "tee", "sponge":
		for _, o := range operands(w) {
			e.writes(o, "by "+name)
		}
	case "dd":
		for _, a := range w[1:] {
			if of, ok := strings.CutPrefix(a.text, "of="); ok {
				e.argument(word{text: of})
				e.writes(word{text: of, computed: a.computed}, "by dd")
			} else if in, ok := strings.CutPrefix(a.text, "if="); ok {
				e.argument(word{text: in})
			}
		}
	case "cp", "mv", "ln", "install", "rsync", "scp", "sftp", "touch", "mkdir", "mkfifo", "mknod", "mktemp", "chmod", "chown", "chgrp", "chattr", "setfacl", "setfattr",
		"patch", "split", "csplit", "ed", "ex", "vi", "vim", "nvim", "nano", "emacs":
		class = WriteClass
		for _, o := range operands(w) {
			e.sensitive(o.text)
		}
		switch {
		case name == "rsync" && hasPrefix(w, "--delete", "--remove-source-files"):
			class, why = Destructive, "rsync deletes"
		case name == "chmod" && index(w, "u+s", "+s", "g+s", "4755", "4777", "u+sx") > 0:
			e.c.warn(WarnPrivilege, "gives a program its owner's rights")
		case (name == "cp" || name == "mv") && len(operands(w)) > 0 && device(operands(w)[len(operands(w))-1].text):
			class, why = Destructive, name+" overwrites a device"
		case (name == "rsync" || name == "scp") && has(w, "--dry-run"):
			class = ReadOnly
		case name == "patch" && has(w, "--dry-run"):
			class = ReadOnly
		}
	case "sed", "gsed":
		class, why = sed(w)
	case "awk", "gawk", "mawk", "nawk":
		class, why = awk(w)
	case "sort":
		writes(has(w, "o", "--output", "--compress-program"))
	case "shuf", "info", "iconv":
		writes(has(w, "o", "--output"))
	case "uniq":
		writes(len(operands(w)) > 1)
	case "tree":
		writes(has(w, "o"))
	case "bat", "batcat":
		writes(verb(w) == "cache")
	case "yq", "dasel", "sd", "perltidy", "gofmt", "goimports", "gofumpt", "black", "prettier", "rustfmt", "clang-format":
		switch name {
		case "gofmt", "goimports", "gofumpt", "prettier":
			writes(has(w, "w", "--write"))
		case "black", "rustfmt":
			writes(!has(w, "--check", "--diff"))
		default:
			writes(name == "sd" || has(w, "i", "--inplace", "--in-place", "b"))
		}
	case "xxd":
		writes(len(operands(w)) > 1)
	case "xmllint", "tidy":
		writes(has(w, "o", "m", "--output"))
	case "tar", "gtar", "bsdtar":
		class, why = tar(w)
	case "unzip", "7z", "7za", "unrar", "ar", "cpio", "zip", "jar":
		v := verb(w)
		list := name == "unzip" && has(w, "l", "t", "p", "v", "Z") || name == "cpio" && has(w, "t") ||
			name != "unzip" && name != "cpio" && (v == "l" || v == "t" || v == "lt" || v == "tf" || v == "vt" || v == "p")
		writes(!list)
	case "gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd", "unzstd", "lz4", "compress", "uncompress", "brotli":
		writes(!has(w, "c", "t", "l", "--stdout", "--test", "--list") && (len(operands(w)) > 0 || has(w, "o")))
	case "sqlite3", "psql", "mysql", "mariadb", "duckdb", "mongosh", "redis-cli":
		class, why = database(name, w)
	case "openssl":
		switch verb(w) {
		case "version", "x509", "s_client", "dgst", "verify", "ciphers", "asn1parse", "rand", "enc", "base64", "help", "list":
			writes(has(w, "-out", "-keyout"))
		default:
			writes(true)
		}
	case "gpg", "gpg2":
		writes(!has(w, "--list-keys", "--list-secret-keys", "--verify", "--version", "k", "K", "--fingerprint"))
	case "curl":
		class, why = curl(w)
	case "wget":
		writes(!has(w, "--spider") && !stdoutDocument(w))
	default:
		return WriteClass, "", false
	}
	return class, why, true
}

// hasPrefix reports whether an argument begins like that.
func hasPrefix(w []word, prefixes ...string) bool {
	for _, a := range w[1:] {
		for _, p := range prefixes {
			if strings.HasPrefix(a.text, p) {
				return true
			}
		}
	}
	return false
}

// stdoutDocument: wget -O - in one of its spellings, and -q before it.
func stdoutDocument(w []word) bool {
	for i, a := range w {
		if (a.text == "-O" || strings.HasSuffix(a.text, "O") && strings.HasPrefix(a.text, "-") || a.text == "--output-document") && i+1 < len(w) && (w[i+1].text == "-" || w[i+1].text == "/dev/null") {
			return true
		}
		if strings.HasPrefix(a.text, "-") && (strings.HasSuffix(a.text, "O-") || a.text == "--output-document=-" || strings.HasSuffix(a.text, "O/dev/null")) {
			return true
		}
	}
	return false
}

func curl(w []word) (Class, string) {
	for i := 1; i < len(w); i++ {
		t := w[i].text
		next := ""
		if i+1 < len(w) {
			next = w[i+1].text
		}
		switch {
		case t == "-X" || t == "--request":
			if next != "GET" && next != "HEAD" && next != "OPTIONS" {
				return WriteClass, "curl sends " + shown(next)
			}
		case (t == "-o" || t == "--output") && sink(next):
			i++
		case strings.HasPrefix(t, "-X"):
			if m := t[2:]; m != "GET" && m != "HEAD" {
				return WriteClass, "curl sends " + shown(m)
			}
		case t == "-D" || t == "--dump-header" || t == "-c" || t == "--cookie-jar":
			if !sink(next) {
				return WriteClass, "curl writes a file"
			}
		case strings.HasPrefix(t, "--data"), strings.HasPrefix(t, "--form"), strings.HasPrefix(t, "--upload"), t == "--json", t == "-K", t == "--config",
			strings.HasPrefix(t, "--output"), strings.HasPrefix(t, "--remote-name"), strings.HasPrefix(t, "--trace"), t == "--stderr":
			return WriteClass, "curl sends or writes a file"
		case len(t) > 1 && t[0] == '-' && t[1] != '-' && strings.ContainsAny(t[1:], "odOJTFK"):
			return WriteClass, "curl sends or writes a file"
		}
	}
	return ReadOnly, ""
}

func tar(w []word) (Class, string) {
	if has(w, "--remove-files") {
		return Destructive, "tar removes what it packed"
	}
	if has(w, "--list") {
		return ReadOnly, ""
	}
	if len(w) > 1 {
		mode := strings.TrimPrefix(w[1].text, "-")
		if !strings.HasPrefix(w[1].text, "--") && strings.Contains(mode, "t") && !strings.ContainsAny(mode, "xcruA") && !hasPrefix(w, "--to-command", "--checkpoint-action", "--use-compress-program", "-I") {
			return ReadOnly, ""
		}
	}
	return WriteClass, ""
}

// database looks for statements that delete, and knows no reading ones.
func database(name string, w []word) (Class, string) {
	for _, a := range w[1:] {
		t := strings.ToLower(a.text)
		for _, s := range []string{"drop table", "drop database", "drop schema", "truncate ", "delete from", "flushall", "flushdb", ".drop(", "deletemany", "dropdatabase"} {
			if strings.Contains(t, s) {
				return Destructive, name + " is told: " + s
			}
		}
	}
	return WriteClass, ""
}
