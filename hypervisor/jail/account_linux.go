package jail

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// noHome is the home directory of who has none.
const noHome = "/tmp"

// account is who commands are.
type account struct {
	UID, GID int
	Name     string
	// Home is a directory without symlinks, or [noHome].
	Home string
	// Known: there is a line in /etc/passwd.
	Known bool
	// ByRoot: this process is root and he is not it, so only mode bits tell what he may.
	ByRoot bool
}

// Lend makes the pipes among a command's files his, so that he can open them by name as natively:
// >/dev/stderr, </dev/stdin. Other files stay whose they are; nil is left out. An error only keeps
// that from working.
func (u account) Lend(files ...*os.File) {
	if !u.ByRoot {
		return
	}
	for _, f := range files {
		if f == nil {
			continue
		}
		if c, err := f.SyscallConn(); err == nil {
			_ = c.Control(func(fd uintptr) {
				var fs unix.Statfs_t
				if unix.Fstatfs(int(fd), &fs) == nil && fs.Type == unix.PIPEFS_MAGIC {
					_ = unix.Fchown(int(fd), u.UID, -1)
				}
			})
		}
	}
}

// chooseAccount works out who commands are: never root. uid and gid are asked for if they are positive; only root
// can be asked.
func chooseAccount(uid, gid int) (account, error) {
	u := account{UID: os.Getuid(), GID: os.Getgid(), ByRoot: os.Geteuid() == 0}
	if !u.ByRoot {
		if uid > 0 && uid != u.UID || gid > 0 && gid != u.GID {
			return u, fmt.Errorf("only root can run commands as another user (uid %d)", uid)
		}
	} else {
		u.UID, u.GID = AnonymousAccount, AnonymousAccount
		if id := sudoID("SUDO_UID"); id > 0 {
			u.UID, u.GID = id, id
			if id := sudoID("SUDO_GID"); id > 0 {
				u.GID = id
			}
		}
		if uid > 0 {
			u.UID, u.GID = uid, uid
		}
		if gid > 0 {
			u.GID = gid
		}
	}
	u.Name, u.Home = "sandbox", os.Getenv("HOME")
	if name, home, ok := passwdEntry(u.UID); ok {
		u.Name, u.Known = name, true
		if u.ByRoot || u.Home == "" {
			u.Home = home
		}
	}
	if st, err := os.Stat(u.Home); !filepath.IsAbs(u.Home) || filepath.Clean(u.Home) == "/" || err != nil || !st.IsDir() {
		u.Home = noHome
	}
	if real, err := filepath.EvalSymlinks(u.Home); err == nil {
		u.Home = real
	}
	return u, nil
}

func sudoID(name string) int {
	id, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return 0
	}
	return id
}

func passwdEntry(uid int) (name, home string, ok bool) {
	data, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return "", "", false
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) >= 6 && f[2] == strconv.Itoa(uid) {
			return f[0], f[5], true
		}
	}
	return "", "", false
}

// BlockedAt returns the first directory on the way to path, itself included, that he may not
// search.
func (u account) BlockedAt(path string) (string, bool) {
	dir := "/"
	for _, name := range strings.Split(strings.Trim(path, "/"), "/") {
		dir = filepath.Join(dir, name)
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil {
			return "", false // nothing there to be replaced
		}
		if !u.maySearch(dir, &st) {
			return dir, true
		}
	}
	return "", false
}

func (u account) maySearch(dir string, st *unix.Stat_t) bool {
	if !u.ByRoot {
		return unix.Access(dir, unix.X_OK) == nil
	}
	return u.Bits(st)&1 != 0
}

// MayWrite reports whether he may write a file by its mode.
func (u account) MayWrite(st *unix.Stat_t) bool { return u.Bits(st)&2 != 0 }

// Bits are the mode bits that hold for him: 4 to read, 2 to write, 1 to execute or search.
func (u account) Bits(st *unix.Stat_t) uint32 {
	switch {
	case int(st.Uid) == u.UID:
		return st.Mode >> 6 & 7
	case int(st.Gid) == u.GID:
		return st.Mode >> 3 & 7
	}
	return st.Mode & 7
}
