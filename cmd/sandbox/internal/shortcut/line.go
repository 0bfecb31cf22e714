package shortcut

import "time"

// line is a command line of 'sandbox run' that has nothing but what is here.
type line struct {
	folder, undo string   // --working-dir, --undo-dir; empty if not given. [line.resolve] completes them
	env          []string // --env
	keep, limit  time.Duration
	argv         []string
	alone        bool // --no-fds

	asks             bool  // its user can be asked
	further, ignored []int // the descriptors that were passed to us, and the signals that we were started with ignored

	logs     bool   // there is a flag about the log, which is main's
	named    bool   // --working-dir was given
	undoWord string // --undo-dir as it was given
}

// parse reads the arguments of the program. ok is false if they are anything else, also if they
// are wrong.
func parse(args []string) (l line, ok bool) {
	if len(args) == 0 || args[0] != "run" {
		return l, false
	}
	for args = args[1:]; len(args) > 0; {
		word := args[0]
		if word == "--" || !begins(word, "-") {
			l.argv = args
			if word == "--" {
				l.argv = args[1:]
			}
			return l, len(l.argv) > 0
		}
		if !begins(word, "--") && word != "-C" {
			return l, false
		}
		if word == "--no-fds" {
			l.alone, args = true, args[1:]
			continue
		}
		name, value, joined := cut(word, "=")
		args = args[1:]
		if !joined {
			if len(args) == 0 {
				return l, false
			}
			value, args = args[0], args[1:]
		}
		if value == "" || !l.set(name, value) {
			return l, false
		}
	}
	return l, false
}

// set takes a flag with its value; false if there is more to it.
func (l *line) set(name, value string) bool {
	once := func(to *string) bool {
		given := *to != ""
		*to = value
		return !given
	}
	duration := func(to *time.Duration) bool {
		d, err := time.ParseDuration(value)
		*to = d
		return err == nil && d >= 0
	}
	switch name {
	case "--working-dir", "-C": // not one with a label or with rights
		_, _, label := cut(value, "=")
		_, _, rights := cut(value, ":")
		return once(&l.folder) && !label && !rights
	case "--undo-dir":
		return once(&l.undo)
	case "--env":
		l.env = append(l.env, value)
		return true
	case "--log-level", "--log-format":
		l.logs = true
		return true
	case "--keep":
		return duration(&l.keep)
	case "--timeout":
		return duration(&l.limit)
	}
	return false
}
