package serve

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/texts"
)

// evaluation is of one simple command.
type evaluation struct {
	c     *collector
	r     *reader
	in    source   // what it reads
	names []string // of those before it in the pipeline
}

func (e *evaluation) raise(class Class, format string, args ...any) {
	e.c.raise(class, fmt.Sprintf(format, args...))
}

// words classifies a program and its arguments and returns its name.
func (e *evaluation) words(w []word, depth int) string {
	if len(w) == 0 {
		return ""
	}
	if depth > maxDepth {
		e.c.unparsed(errDeep.Error())
		return ""
	}
	for _, a := range w {
		e.argument(a)
	}
	first := w[0]
	if first.computed || first.pattern {
		e.raise(WriteClass, "the name of the program is computed: %s", shown(first.text))
		e.c.warn(WarnComputed, "the name of the program is computed: "+shown(first.text))
		e.fed(first)
		return ""
	}
	name, known := programName(first.text)
	if class, ok := e.c.k.match(append([]word{{text: name}}, w[1:]...)); ok {
		e.raise(class, "%s is configured as %s", shown(name), class)
		return name
	}
	if slices.Contains(e.r.funcs, name) {
		if slices.Contains(e.names, name) {
			e.c.warn(WarnForkBomb, fmt.Sprintf("the function %s starts itself twice: a fork bomb", shown(name)))
		}
		if class, _ := e.program(name, w, depth); class == WriteClass {
			return name // its body counts
		}
	}
	class, why := e.program(name, w, depth)
	if !known && class == ReadOnly {
		class, why = WriteClass, shown(first.text)+" is not one of the system's programs"
	}
	if class != ReadOnly && why == "" {
		why = shown(name)
		if class == Destructive {
			why += " deletes or discards"
		} else {
			why += " writes, or is not known"
		}
	}
	e.raise(class, "%s", why)
	return name
}

// programName returns the name that rules go by, and whether a program of that
// name in that place is what the rules mean.
func programName(text string) (name string, known bool) {
	dir, base := path.Split(text)
	switch dir {
	case "", "/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/", "/usr/local/bin/", "/opt/homebrew/bin/":
		return base, true
	}
	return base, false
}

// out says where what the command prints comes from.
func (e *evaluation) out(name string) source {
	switch name {
	case "curl", "wget", "fetch", "aria2c", "http", "https", "lynx", "nc", "ncat":
		return source{fetched: true}
	case "base64", "base32", "xxd", "openssl", "uudecode":
		return source{fetched: e.in.fetched, decoded: true}
	case "":
		return e.in
	}
	return e.in
}

// fed warns if what is run as code comes from a download or a decoder.
func (e *evaluation) fed(w word) {
	src := e.in.or(w.source)
	if src.fetched {
		e.c.warn(WarnPipeToShell, "what was downloaded is run unseen")
	}
	if src.decoded {
		e.c.warn(WarnDecodedCode, "what was decoded is run unseen")
	}
}

// assign looks at an assignment.
func (e *evaluation) assign(text string) {
	name, _, _ := strings.Cut(text, "=")
	switch strings.TrimSuffix(name, "+") {
	case "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "PYTHONSTARTUP", "PERL5OPT", "BASH_ENV", "ENV",
		"NODE_OPTIONS", "PROMPT_COMMAND", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "PAGER", "EDITOR", "VISUAL", "GIT_EDITOR", "PATH":
		if name != "PATH" {
			e.c.warn(WarnLoader, name+" makes other programs run what it names")
		}
		e.raise(WriteClass, "%s changes what other programs run", name)
	}
}

// argument looks at what any program should not be given.
func (e *evaluation) argument(w word) {
	if device(w.text) {
		e.c.warn(WarnDevice, "names a device: "+shown(w.text))
	}
}

// redirection classifies one.
func (e *evaluation) redirection(r redirection) {
	t := r.target.text
	if strings.HasPrefix(t, "/dev/tcp/") || strings.HasPrefix(t, "/dev/udp/") {
		e.c.warn(WarnNetwork, "the shell itself opens a connection: "+shown(t))
		e.raise(WriteClass, "opens a connection: %s", shown(t))
	}
	e.argument(r.target)
	switch r.op {
	case "<", "<<<":
		e.in = e.in.or(r.target.source)
		return
	case "<&":
		return
	case ">&":
		if digits(strings.TrimSuffix(t, "-")) || t == "-" {
			return
		}
	}
	e.writes(r.target, "by a redirection")
}

// writes classifies writing to a file.
func (e *evaluation) writes(w word, how string) {
	switch t := w.text; {
	case sink(t) && !w.computed:
	case w.computed && t == "/dev/fd/0": // the process substitution counts itself
	case device(t):
		e.raise(Destructive, "overwrites the device %s %s", shown(t), how)
	default:
		e.raise(WriteClass, "writes %s %s", shown(t), how)
		e.sensitive(t)
	}
}

// sink reports whether writing there changes nothing.
func sink(t string) bool {
	switch t {
	case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/full", "/dev/zero", "-":
		return true
	}
	return strings.HasPrefix(t, "/dev/fd/")
}

// device reports whether t is a disk, memory or the kernel's own switches.
func device(t string) bool {
	name, ok := strings.CutPrefix(t, "/dev/")
	if ok {
		for _, p := range []string{"sd", "hd", "vd", "xvd", "nvme", "mmcblk", "loop", "dm-", "md", "mapper/", "disk", "rdisk", "mem", "kmem", "port", "sr", "mtd", "nbd"} {
			if strings.HasPrefix(name, p) {
				return true
			}
		}
	}
	return strings.HasPrefix(t, "/proc/sysrq") || strings.HasPrefix(t, "/proc/sys/kernel/") || t == "/proc/kcore"
}

// sensitive warns of files that others run or trust later.
func (e *evaluation) sensitive(t string) {
	p := "/" + path.Clean(t)
	if strings.Contains(p, "/.git/hooks/") || strings.HasSuffix(p, "/.git/hooks") || strings.HasSuffix(p, "/.git/config") {
		e.c.warn(WarnGitHook, "git runs what is written there: "+shown(t))
		return
	}
	switch path.Base(p) {
	case ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".kshrc", ".login",
		".cshrc", ".tcshrc", ".inputrc", ".gitconfig", ".netrc", "authorized_keys", ".xinitrc", ".xprofile", "config.fish":
		e.c.warn(WarnStartup, "is read at every login or decides who may log in: "+shown(t))
		return
	}
	for _, part := range []string{"/.ssh/", "/etc/cron", "/etc/profile", "/etc/sudoers", "/etc/systemd/", "/etc/init", "/etc/rc", "/etc/ld.so", "/etc/pam.d/",
		"/etc/passwd", "/etc/shadow", "/var/spool/cron", "/.config/systemd/", "/.config/autostart/", "/LaunchAgents/", "/LaunchDaemons/"} {
		if strings.Contains(p+"/", part) {
			e.c.warn(WarnStartup, "is read at login or boot, or decides who may log in: "+shown(t))
			return
		}
	}
}

// shown is text for a reason: short, and with nothing that disturbs a terminal.
func shown(t string) string {
	const most = 60
	if len(t) > most {
		t = strings.ToValidUTF8(t[:most], "") + "..."
	}
	if t != "" && !strings.ContainsFunc(t, func(r rune) bool { return !clean(r) }) {
		return t
	}
	return texts.Quoted(t)
}

// clean reports whether r can be shown without quotes.
func clean(r rune) bool {
	return r > ' ' && texts.Clean(r)
}
