package confine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// promises are what the thread tries when it has its rules, before anything is started: each must fail.
type promises struct {
	unread []string // files that are hidden, or lie in what is
	unmade []string // directories in which nothing is made without an answer
}

// newPromises are those about hidden paths, and about the folders and the home directory. own is the guest's directory.
func newPromises(folders, hidden []string, own string) promises {
	var p promises
	for _, h := range hidden {
		if file := witness(h, append(slices.Clone(folders), own), 3); file != "" {
			p.unread = append(p.unread, file)
		}
	}
	p.unmade = append(slices.Clone(folders), "/")
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		p.unmade = append(p.unmade, home)
	}
	return p
}

// looked is how many names of a directory are looked at for a witness.
const looked = 16

// witness is path itself if it is a file, or one in it: names can be listed, also hidden ones. Empty: there is none near.
func witness(path string, shown []string, depth int) string {
	info, err := os.Lstat(path)
	switch {
	case err != nil || depth == 0 || slices.Contains(shown, path):
		return ""
	case info.Mode().IsRegular():
		return path
	case !info.IsDir():
		return ""
	}
	dir, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(looked)
	for _, name := range names {
		if file := witness(filepath.Join(path, name), shown, depth-1); file != "" {
			return file
		}
	}
	return ""
}

// try returns which promise does not hold, or nil. It makes no call that is mediated.
func (p promises) try() error {
	for _, path := range p.unread {
		if opens(path, unix.O_RDONLY) {
			return fmt.Errorf("%s is to be hidden, and can be read inside", path)
		}
	}
	for _, dir := range p.unmade {
		if opens(dir, unix.O_WRONLY|unix.O_TMPFILE) {
			return fmt.Errorf("%s can be written inside without being asked about", dir)
		}
	}
	return nil
}

// opens reports whether a path can be opened.
func opens(path string, flags int) bool {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o600)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}
