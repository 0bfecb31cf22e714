package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// node is everything that is compared about one path.
type node struct {
	Type    string            `json:"type"`
	Mode    uint32            `json:"mode"`
	UID     uint32            `json:"uid"`
	GID     uint32            `json:"gid"`
	Rdev    uint64            `json:"rdev,omitempty"`
	Size    int64             `json:"size,omitempty"`
	MtimeNs int64             `json:"mtime_ns"`
	Content string            `json:"content,omitempty"`
	Target  string            `json:"target,omitempty"`
	Xattrs  map[string]string `json:"xattrs,omitempty"`
	// Links are all names of the same inode inside the tree, if more than one.
	Links string `json:"links,omitempty"`
}

// scan reads a tree. Keys are quoted relative paths, so that any bytes survive
// JSON.
func scan(root string) (map[string]node, error) {
	tree := map[string]node{}
	names := map[[2]uint64][]string{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		key := strconv.Quote(rel)
		n, id, links, err := look(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		tree[key] = n
		if links > 1 && n.Type != "dir" {
			names[id] = append(names[id], key)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, group := range names {
		if len(group) < 2 {
			continue // its other names are outside the tree
		}
		sort.Strings(group)
		for _, key := range group {
			n := tree[key]
			n.Links = strings.Join(group, " ")
			tree[key] = n
		}
	}
	return tree, nil
}

func look(path string) (node, [2]uint64, uint64, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return node{}, [2]uint64{}, 0, err
	}
	n := node{Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid, MtimeNs: st.Mtim.Nano()}
	var err error
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		n.Type, n.Size = "file", st.Size
		n.Content, err = digest(path)
	case unix.S_IFDIR:
		n.Type = "dir"
	case unix.S_IFLNK:
		n.Type = "symlink"
		n.Target, err = os.Readlink(path)
		n.Target = strconv.Quote(n.Target)
	case unix.S_IFIFO:
		n.Type = "fifo"
	case unix.S_IFSOCK:
		n.Type = "socket"
	default:
		n.Type, n.Rdev = "device", st.Rdev
	}
	if err == nil {
		n.Xattrs, err = xattrs(path)
	}
	return n, [2]uint64{st.Dev, st.Ino}, uint64(st.Nlink), err
}

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func xattrs(path string) (map[string]string, error) {
	buf := make([]byte, 64<<10) // the kernel's limit for a list and for a value
	size, err := unix.Llistxattr(path, buf)
	if errors.Is(err, unix.ENOTSUP) || size == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	value := make([]byte, 64<<10)
	for _, name := range strings.Split(strings.TrimSuffix(string(buf[:size]), "\x00"), "\x00") {
		n, err := unix.Lgetxattr(path, name, value)
		if err != nil {
			return nil, fmt.Errorf("xattr %s: %w", name, err)
		}
		out[name] = hex.EncodeToString(value[:n])
	}
	return out, nil
}
