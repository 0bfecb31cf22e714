package confine

import "log/slog"

// Options of a [Runtime].
type Options struct {
	// GuestBinary returns the program sandbox-guest. Nil: the running program contains it
	// and is started again from /proc/self/exe, as with the jail.
	GuestBinary func() ([]byte, error)
	// Umask is what commands start with; this process's own may be another.
	Umask int
	// Logger may be nil.
	Logger *slog.Logger
}

// Weaker says what a jail has and a guest of this runtime has not, one sentence each.
func Weaker() []string {
	return []string{
		"the processes of this machine are visible, with their command lines",
		"names, sizes and times of all files are visible, also of hidden ones; their contents are not",
		"what is new directly in a directory that holds something hidden, such as the home directory, cannot be read",
		"there is no network but a pod's (--network pod), without it not even a loopback, and there are no unix sockets but pairs",
		"only TMPDIR is writable beside the folders: not /tmp, not /dev/shm, not the home directory, no caches",
		"terminals made inside cannot be opened (tmux, script)",
		"limits of memory, processors and processes are not kept",
		"a program can slow down this user's other processes (priorities, processors)",
	}
}
