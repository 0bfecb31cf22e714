package seatbelt

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"
)

// Program is what starts another one behind a profile.
const Program = "/usr/bin/sandbox-exec"

// Profile is what a process may do. All paths are absolute, and those of Unix.
type Profile struct {
	// Execute are programs; they can be read.
	Execute []string
	// Read and Write are files, and directories with all that is below them. What can be written can be read.
	Read, Write []string
	// Connect and Listen are unix sockets. Who listens can make and remove the socket.
	Connect, Listen []string
	// Sockets are directories: the process listens at, and connects to, unix sockets in them.
	Sockets []string
	// Network lets the process connect to other machines, and ask for names.
	Network bool
	// SharedMemory are regular expressions, without quotation marks, of the names of POSIX shared memory that is made, used and removed.
	SharedMemory []string
	// Children lets the process signal its children.
	Children bool
	// Terminal lets the process use terminals.
	Terminal bool
	// Hypervisor lets the process run virtual machines (Hypervisor.framework).
	Hypervisor bool
}

// Resolve returns a path without symlinks, as [filepath.EvalSymlinks] does.
type Resolve func(path string) (string, error)

// Line is the command line that runs program with args behind the profile.
func (p Profile) Line(resolve Resolve, program string, args []string) ([]string, error) {
	p.Execute = append(slices.Clone(p.Execute), program)
	text, err := p.Text(resolve)
	if err != nil {
		return nil, err
	}
	return append([]string{Program, "-p", text, program}, args...), nil
}

// Text is the profile. An error names a path that is not there, or cannot be written into a profile.
func (p Profile) Text(resolve Resolve) (string, error) {
	w := writer{resolve: resolve}
	w.line("(version 1)")
	w.line("(deny default)")
	w.line(`(import "system.sb")`)
	w.line("(allow process-info* signal (target self))")
	w.line("(allow sysctl-read)")
	execute, listen := w.spellings(p.Execute, false), w.spellings(p.Listen, true)
	w.rule("process-exec", "literal", execute)
	w.rule("file-read*", "literal", execute)
	w.rule("file-read*", "subpath", w.spellings(p.Read, false))
	w.rule("file-read* file-write*", "subpath", w.spellings(p.Write, false))
	w.rule("file-read* file-write*", "literal", listen)
	if len(p.Connect)+len(p.Listen)+len(p.Sockets) > 0 {
		w.line("(allow system-socket (socket-domain AF_UNIX))")
	}
	sockets := w.spellings(p.Sockets, false)
	w.socket("network-outbound", "remote", "path-literal", w.spellings(p.Connect, false))
	w.socket("network-bind network-inbound", "local", "path-literal", listen)
	w.socket("network-outbound", "remote", "subpath", sockets)
	w.socket("network-bind network-inbound", "local", "subpath", sockets)
	if p.Network {
		w.line("(allow network* system-socket)")
		w.line("(system-network)")
	}
	for _, names := range p.SharedMemory {
		w.line(`(allow ipc-posix-shm* (ipc-posix-name-regex #"` + names + `"))`)
	}
	if p.Children {
		w.line("(allow signal (target children))")
	}
	if p.Terminal {
		w.line(`(allow file-read* file-write* file-ioctl (literal "/dev/tty") (regex #"^/dev/ttys[0-9]+$"))`)
	}
	if p.Hypervisor {
		w.line(`(allow iokit-open (iokit-registry-entry-class "AppleHVClient"))`)
	}
	w.above()
	return w.text.String(), errors.Join(w.errs...)
}

// writer collects rules.
type writer struct {
	resolve Resolve
	text    strings.Builder
	named   []string // all paths that rules name
	errs    []error
}

func (w *writer) line(s string) { w.text.WriteString(s + "\n") }

// quoted is a string of the profile.
func (w *writer) quoted(s string) string {
	if strings.ContainsFunc(s, unicode.IsControl) {
		w.errs = append(w.errs, fmt.Errorf("seatbelt: %q has a control character, which a profile cannot have", s))
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// spellings are the forms of paths in a profile: as given, and without symlinks. The last name of one may be that of something to be made.
func (w *writer) spellings(paths []string, made bool) (all []string) {
	for _, given := range paths {
		if !path.IsAbs(given) || path.Clean(given) != given {
			w.errs = append(w.errs, fmt.Errorf("seatbelt: %q is no absolute path", given))
			continue
		}
		real, err := w.resolve(given)
		if dir := ""; made && errors.Is(err, fs.ErrNotExist) {
			dir, err = w.resolve(path.Dir(given))
			real = path.Join(dir, path.Base(given))
		}
		if err != nil {
			w.errs = append(w.errs, fmt.Errorf("seatbelt: %w", err))
			continue
		}
		all = append(all, given, real)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	w.named = append(w.named, all...)
	return all
}

// rule allows operations on files.
func (w *writer) rule(operations, filter string, paths []string) {
	for _, name := range paths {
		w.line("(allow " + operations + " (" + filter + " " + w.quoted(name) + "))")
	}
}

// socket allows operations on the side of a unix socket that has a path.
func (w *writer) socket(operations, side, filter string, paths []string) {
	for _, name := range paths {
		w.line("(allow " + operations + " (" + side + " unix-socket (" + filter + " " + w.quoted(name) + ")))")
	}
}

// above allows attributes of the directories above all paths to be read: who opens a path looks at them.
func (w *writer) above() {
	dirs := map[string]bool{}
	for _, name := range w.named {
		for dir := path.Dir(name); !dirs[dir]; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	all := make([]string, 0, len(dirs))
	for dir := range dirs {
		all = append(all, dir)
	}
	slices.Sort(all)
	for _, dir := range all {
		w.line("(allow file-read-metadata (literal " + w.quoted(dir) + "))")
	}
}
