package image

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// The modules of a guest, by the name that the kernel gives them. Those that a
// kernel has built in are skipped; one that it has not at all is an error only if
// it is needed. Those for disks are loaded only by a machine that has one.
var (
	needed = []string{"virtio_pci", "virtio_console", "virtio_net", "fuse", "virtiofs"}
	useful = []string{"virtio_rng", "virtio_balloon", "af_packet", "9p", "9pnet_fd", "virtio_mmio"}
	disks  = []string{"virtio_blk", "overlay", "squashfs", "erofs", "ext4"}
)

// module is one file of lib/modules/VERSION/kernel.
type module struct {
	name    string // with underscores
	content []byte // uncompressed
	depends []string
}

// moduleName returns the module that a path of a package holds.
func moduleName(file string) (name, compressed string, ok bool) {
	base := path.Base(file)
	for _, c := range []string{"", ".xz", ".zst", ".gz"} {
		if n, found := strings.CutSuffix(base, ".ko"+c); found {
			return strings.ReplaceAll(n, "-", "_"), c, n != ""
		}
	}
	return "", "", false
}

// parseModule reads what a module says of itself in its section .modinfo.
func parseModule(name string, content []byte) (m *module, err error) {
	defer func() {
		if e := recover(); e != nil { // debug/elf promises nothing about hostile files
			m, err = nil, fmt.Errorf("%w: module %s: %v", ErrPackage, name, e)
		}
	}()
	f, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("%w: module %s: %w", ErrPackage, name, err)
	}
	s := f.Section(".modinfo")
	if s == nil {
		return nil, fmt.Errorf("%w: module %s: no .modinfo", ErrPackage, name)
	}
	info, err := s.Data()
	if err != nil {
		return nil, fmt.Errorf("%w: module %s: %w", ErrPackage, name, err)
	}
	m = &module{name: name, content: content}
	for _, field := range bytes.Split(info, []byte{0}) {
		switch key, value, _ := strings.Cut(string(field), "="); key {
		case "depends":
			for _, d := range strings.Split(value, ",") {
				if d != "" {
					m.depends = append(m.depends, strings.ReplaceAll(d, "-", "_"))
				}
			}
		case "softdep":
			// "pre: a b post: c": what comes before is loaded before, if it is there.
			if _, pre, ok := strings.Cut(value, "pre:"); ok {
				pre, _, _ = strings.Cut(pre, "post:")
				for _, d := range strings.Fields(pre) {
					m.depends = append(m.depends, "?"+strings.ReplaceAll(d, "-", "_"))
				}
			}
		}
	}
	return m, nil
}

// loadOrder returns the modules to load, each after those that it needs: first
// those that every machine loads, always of them. builtin reports modules that
// the kernel contains.
func loadOrder(all map[string]*module, builtin func(string) bool) (order []*module, always int, err error) {
	state := map[string]int{} // 1 under way, 2 done
	var visit func(name, by string) error
	visit = func(name, by string) error {
		optional := strings.HasPrefix(name, "?")
		name = strings.TrimPrefix(name, "?")
		if builtin(name) || state[name] == 2 {
			return nil
		}
		if state[name] == 1 {
			if optional {
				return nil
			}
			return fmt.Errorf("%w: modules need each other: %s and %s", ErrPackage, by, name)
		}
		m := all[name]
		if m == nil {
			if optional {
				return nil
			}
			return fmt.Errorf("%w: the kernel has no module %s, which %s needs", ErrPackage, name, by)
		}
		state[name] = 1
		for _, d := range m.depends {
			if err := visit(d, name); err != nil {
				return err
			}
		}
		state[name] = 2
		order = append(order, m)
		return nil
	}
	for _, n := range needed {
		err = errors.Join(err, visit(n, "the guest"))
	}
	for _, n := range useful {
		err = errors.Join(err, visit("?"+n, "the guest"))
	}
	always = len(order)
	for _, n := range disks {
		err = errors.Join(err, visit("?"+n, "the guest"))
	}
	return order, always, err
}

// parseBuiltin reads modules.builtin: one path a line.
func parseBuiltin(text []byte) func(string) bool {
	var names []string
	for line := range strings.Lines(string(text)) {
		if n, _, ok := moduleName(strings.TrimSpace(line)); ok {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return func(name string) bool {
		_, found := slices.BinarySearch(names, name)
		return found
	}
}
