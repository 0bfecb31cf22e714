package hypervisor

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// LogSuffix ends the name of an undo log that lies beside its folder. It begins with a dot.
const LogSuffix = ".sandbox-undo"

// LogNotes is the directory, in a user's state directory, in which each undo log that lies outside of that has a note: a file that says where the log is.
const LogNotes = "logs"

// Bounds of notes: the size of one, in bytes, and how many are read.
const (
	maxNote  = 16 << 10
	maxNotes = 4096
)

// Logs are undo logs of this user, as secrets: those that lie beside their folders, in these folders, all directories above them and the home directories; and those that a state directory of
// one of the homes has a note of, wherever they lie. What else was done on this machine is in them. getenv is that of whoever starts the guest; what is not absolute is left out.
func Logs(getenv func(string) string, folders []string, homes ...string) (out []Secret) {
	const what, source = "an undo log", "docs/undo-log.md"
	looked := map[string]bool{}
	for _, dir := range append(append([]string{}, folders...), homes...) {
		for ; !looked[dir] && filepath.IsAbs(dir); dir = filepath.Dir(dir) {
			looked[dir] = true
			for _, name := range namesIn(dir, -1) {
				if strings.HasPrefix(name, ".") && strings.HasSuffix(name, LogSuffix) {
					out = append(out, Secret{filepath.Join(dir, name), what, source})
				}
			}
		}
	}
	states := []string{getenv("XDG_STATE_HOME")}
	for _, home := range homes {
		if filepath.IsAbs(home) {
			states = append(states, filepath.Join(home, ".local", "state"))
		}
	}
	for _, state := range states {
		if !filepath.IsAbs(state) {
			continue
		}
		notes := filepath.Join(state, "sandbox", LogNotes)
		for _, name := range namesIn(notes, maxNotes) {
			if log := noted(filepath.Join(notes, name)); IsLog(log) {
				out = append(out, Secret{filepath.Clean(log), what, source + "; noted in " + filepath.Join(notes, name)})
			}
		}
	}
	return out
}

// noted is what a note says. Under sudo it is another user's file: who made it a named pipe is not waited for.
func noted(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() > maxNote {
		return ""
	}
	text, _ := io.ReadAll(io.LimitReader(f, maxNote))
	return string(text)
}

// IsLog reports whether an undo log is at an absolute path, as far as names tell.
func IsLog(dir string) bool {
	if !filepath.IsAbs(dir) {
		return false
	}
	for _, name := range []string{"version", "lock", "steps", "wal"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// namesIn are those in a directory, as far as they can be listed, and at most so many (-1: all).
func namesIn(dir string, most int) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	list, _ := f.Readdirnames(most)
	return list
}
