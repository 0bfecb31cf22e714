package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/messages/lexical"
)

// hierarchy is a mounted tree of groups.
type hierarchy struct {
	version     int
	controllers []string // of version 1
	root, point string   // what of it is mounted, and where
	own         string   // this process's group in it
}

// v1Names are the controllers' names in version 1, where they differ.
var v1Names = map[Controller]string{IO: "blkio"}

func (c Controller) v1() string {
	if n := v1Names[c]; n != "" {
		return n
	}
	return string(c)
}

// hierarchies reads /proc/self: what is mounted, and where we are in it.
func hierarchies() ([]hierarchy, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	return parse(string(mounts), string(groups)), nil
}

func parse(mounts, groups string) (out []hierarchy) {
	for line := range strings.Lines(mounts) {
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		f, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(kind) < 3 {
			continue
		}
		h := hierarchy{root: f[3], point: f[4]}
		switch kind[0] {
		case "cgroup2":
			h.version = 2
		case "cgroup":
			h.version, h.controllers = 1, strings.Split(kind[2], ",")
		default:
			continue
		}
		if h.own, ok = ownGroup(groups, h); ok {
			out = append(out, h)
		}
	}
	return out
}

// ownGroup is the path of this process's group in a hierarchy.
func ownGroup(groups string, h hierarchy) (string, bool) {
	for line := range strings.Lines(groups) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		names := strings.Split(f[1], ",")
		if h.version == 2 && f[0] == "0" || h.version == 1 && f[1] != "" && slices.ContainsFunc(names, func(n string) bool { return slices.Contains(h.controllers, n) }) {
			return f[2], true
		}
	}
	return "", false
}

// dirs are the directories of our own group and of those above it, from the innermost.
func (h hierarchy) dirs() []string {
	rel, in := lexical.Rel(h.root, h.own)
	if !in {
		return nil // it lies outside of what is mounted
	}
	var out []string
	for dir := filepath.Join(h.point, rel); ; dir = filepath.Dir(dir) {
		out = append(out, dir)
		if dir == h.point || dir == "/" {
			return out
		}
	}
}

// Detect looks for each controller. It changes nothing.
func Detect() map[Controller]Support {
	out := map[Controller]Support{}
	list, err := hierarchies()
	for _, c := range Controllers() {
		s := Support{Controller: c, Why: "no control groups are mounted"}
		if err != nil {
			s.Why = err.Error()
		}
		for _, version := range []int{2, 1} {
			for _, h := range list {
				if s.Version == 0 && h.version == version {
					s = h.find(c, s)
				}
			}
		}
		out[c] = s
	}
	return out
}

// find looks for a controller in a hierarchy.
func (h hierarchy) find(c Controller, s Support) Support {
	if h.version == 1 && !slices.Contains(h.controllers, c.v1()) {
		return s
	}
	if h.version == 2 && !slices.Contains(words(filepath.Join(h.point, "cgroup.controllers")), string(c)) {
		if s.Why == "no control groups are mounted" {
			s.Why = "version 2 does not have the controller here"
		}
		return s
	}
	dirs := h.dirs()
	if len(dirs) == 0 {
		s.Why = "this process's group is not below " + h.point
		return s
	}
	for _, dir := range dirs {
		why := h.usable(c, dir)
		if why == nil {
			return Support{Controller: c, Version: h.version, Parent: dir}
		}
		s.Why = fmt.Sprintf("v%d: %s: %v", h.version, dir, why)
	}
	return s
}

// usable returns why no group with the controller can be made in dir.
func (h hierarchy) usable(c Controller, dir string) error {
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return err
	}
	if h.version == 1 {
		return nil
	}
	if err := unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK); err != nil {
		return err
	}
	if slices.Contains(words(filepath.Join(dir, "cgroup.subtree_control")), string(c)) {
		return nil
	}
	if !slices.Contains(words(filepath.Join(dir, "cgroup.controllers")), string(c)) {
		return errors.New("the controller was not delegated")
	}
	if err := unix.Access(filepath.Join(dir, "cgroup.subtree_control"), unix.W_OK); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.type")); err == nil && len(words(filepath.Join(dir, "cgroup.procs"))) > 0 {
		return errors.New("it holds processes, so its children cannot have the controller") // the root may
	}
	return nil
}

// words reads a file of words.
func words(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}
