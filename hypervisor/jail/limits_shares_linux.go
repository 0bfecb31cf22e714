package jail

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// share is how much a session may take of what all processes of its user share: three quarters, so that the rest stays for those outside.
func share(all uint64) uint64 { return all - all/4 }

// limitShare is a setting that the kernel has for each namespace. Who is root in one sets it by writing to a file.
type limitShare struct{ File, Value string }

// limitsSettings is where these files are. A process finds those of its own user namespace.
const limitsSettings = "/proc/sys/user/"

// counted are the bounds of things of which each user has a number, and the bound of the whole machine if that has a file of its own.
var counted = []struct{ name, machine string }{
	{"max_inotify_instances", "/proc/sys/fs/inotify/max_user_instances"}, {"max_inotify_watches", "/proc/sys/fs/inotify/max_user_watches"},
	{"max_fanotify_groups", "/proc/sys/fs/fanotify/max_user_groups"}, {"max_fanotify_marks", "/proc/sys/fs/fanotify/max_user_marks"},
}

// limitShares are the bounds of a session. There are none where the kernel has no such files, or a container keeps them from being written.
func limitShares() (out []limitShare) {
	if !writable(limitsSettings) {
		return nil
	}
	for _, c := range counted {
		own, ok := number(limitsSettings + c.name)
		if !ok {
			continue
		}
		if machine, ok := number(c.machine); ok {
			own = min(own, machine)
		}
		out = append(out, limitShare{limitsSettings + c.name, strconv.FormatUint(share(own), 10)})
	}
	return out
}

// pings says who may send pings by datagram sockets in a network namespace: the groups from one to another, which is nobody in a new one.
const pings = "/proc/sys/net/ipv4/ping_group_range"

// limitPings lets a group send pings, as systemd lets all: setuid programs and capabilities, with which others do it, have no effect in a jail. A process finds
// the setting of its own network namespace. There is none where a container keeps it from being written.
func limitPings(gid int) []limitShare {
	if !writable(pings) {
		return nil
	}
	return []limitShare{{pings, fmt.Sprintf("%d %d", gid, gid)}}
}

// writable tells whether a file or directory is there, on a mount that is writable.
func writable(path string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(path, &fs) == nil && fs.Flags&unix.ST_RDONLY == 0
}

func number(file string) (uint64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	return n, err == nil
}

// limitsShared are limits that the kernel compares with what all processes of the user have, those outside too.
func limitsShared() (out []rlimitOf) {
	for _, l := range []rlimitOf{{"signals that wait", unix.RLIMIT_SIGPENDING, 0}, {"message queues", unix.RLIMIT_MSGQUEUE, 0}} {
		var have unix.Rlimit
		if unix.Getrlimit(int(l.Resource), &have) == nil && have.Max != unix.RLIM_INFINITY {
			l.Value = min(have.Cur, share(have.Max))
			out = append(out, l)
		}
	}
	return out
}
