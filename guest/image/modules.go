package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// The modules of a guest, by the name that the kernel gives them. Those that a
// kernel has built in are skipped; one that it has not at all is an error only if
// it is needed. Every machine loads those of the first list, and of the others
// those for what it has: an emulated machine takes up to 20 ms for one.
var lists = []moduleList{
	{file: "lib/modules/list", needed: []string{"virtio_pci", "virtio_console", "fuse", "virtiofs"}},
	{file: "lib/modules/list-network", needed: []string{"virtio_net"}, useful: []string{"af_packet"}},
	{file: "lib/modules/list-9p", useful: []string{"9p", "9pnet_fd"}},
	{file: "lib/modules/list-disks", useful: []string{"virtio_blk", "overlay", "squashfs", "erofs", "ext4"}},
}

// moduleList is a list of modules in the initramfs.
type moduleList struct {
	file           string // in the initramfs
	needed, useful []string
}

// listsWith are lists, and one of others that somebody wants.
func listsWith(others []string) []moduleList {
	if len(others) == 0 {
		return lists
	}
	return append(slices.Clip(lists), moduleList{file: OthersFile, needed: others})
}

// module is one file of lib/modules/VERSION/kernel.
type module struct {
	name    string // with underscores
	content []byte // uncompressed
	depends []string
	aliases []string // other names: that of an algorithm, which several modules may have
}

// file is where it is in the initramfs.
func (m *module) file() string { return path.Join("lib/modules", m.name+".ko") }

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
	m = &module{name: name, content: unsigned(withoutBTF(f, content))}
	for _, field := range bytes.Split(info, []byte{0}) {
		switch key, value, _ := strings.Cut(string(field), "="); key {
		case "depends":
			for _, d := range strings.Split(value, ",") {
				if d != "" {
					m.depends = append(m.depends, strings.ReplaceAll(d, "-", "_"))
				}
			}
		case "alias":
			if !strings.ContainsAny(value, ":*") { // those are devices' and file systems'
				m.aliases = append(m.aliases, strings.ReplaceAll(value, "-", "_"))
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

// withoutBTF empties a module's type descriptions, in place: with them the kernel
// reads its own too, for tracers that nobody in a guest may use.
func withoutBTF(f *elf.File, content []byte) []byte {
	const sectionHeaders, headerBytes, size = 0x28, 64, 0x20 // e_shoff, and sh_size in each
	for i, s := range f.Sections {
		if s.Name == ".BTF" && f.Class == elf.ELFCLASS64 {
			at := f.ByteOrder.Uint64(content[sectionHeaders:]) + uint64(i)*headerBytes + size
			f.ByteOrder.PutUint64(content[at:], 0)
		}
	}
	return content
}

// unsigned cuts a module's signature off (struct module_signature and what is
// before it). The kernel has no key for it, since it does not load its certificates
// either, and would add the whole file up only to find that out.
func unsigned(content []byte) []byte {
	const magic, header = "~Module signature appended~\n", 12
	rest, ok := bytes.CutSuffix(content, []byte(magic))
	if !ok || len(rest) < header {
		return content
	}
	rest, h := rest[:len(rest)-header], rest[len(rest)-header:]
	signed := int64(len(rest)) - int64(h[3]) - int64(h[4]) - int64(binary.BigEndian.Uint32(h[8:])) // signer, key, signature
	if signed < 0 {
		return content
	}
	return rest[:signed]
}

// loads are the modules of each list, by the list's file.
type loads []load

type load struct {
	file    string
	modules []*module
}

// all returns each module once.
func (l loads) all() (ms []*module) {
	for _, one := range l {
		for _, m := range one.modules {
			if !slices.Contains(ms, m) {
				ms = append(ms, m)
			}
		}
	}
	return ms
}

// loadOrder returns the modules to load, each after those that it needs and that
// the first list has not. builtin reports modules that the kernel contains.
func loadOrder(lists []moduleList, all map[string]*module, builtin func(string) bool) (l loads, err error) {
	var always map[string]int // state, after the first list
	named := byAlias(all)
	for i, list := range lists {
		state := map[string]int{}
		maps.Copy(state, always)
		names := slices.Clone(list.needed)
		for _, n := range list.useful {
			names = append(names, "?"+n)
		}
		order, lerr := walk(all, named, builtin, state, names)
		err = errors.Join(err, lerr)
		l = append(l, load{list.file, order})
		if i == 0 {
			always = state
		}
	}
	return l, err
}

// byAlias returns the names of the modules that have an alias, in order. What somebody needs by the name of an algorithm is any of them, and the
// processor may not have what the first asks for.
func byAlias(all map[string]*module) map[string][]string {
	named := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, a := range all[name].aliases {
			named[a] = append(named[a], name)
		}
	}
	return named
}

// walk returns the named modules and those that they need, without those that
// state has: 1 under way, 2 done. named are modules by their aliases.
func walk(all map[string]*module, named map[string][]string, builtin func(string) bool, state map[string]int, names []string) (order []*module, err error) {
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
			var failed error
			for _, n := range named[name] {
				failed = errors.Join(failed, visit("?"+n, by))
			}
			if optional || len(named[name]) > 0 {
				return failed
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
	for _, n := range names {
		err = errors.Join(err, visit(n, "the guest"))
	}
	return order, err
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
