package qemu

import (
	"path"
	"strings"

	"github.com/codeagent/sandbox/hypervisor/seatbelt"
	"github.com/codeagent/sandbox/messages/lexical"
)

// behindSeatbelt is the command line of QEMU behind macOS' Seatbelt: it reads what it is installed with and what it boots, has its disk,
// its memory and its connections to us, and nothing else: not the folders, and no network.
func (m machine) behindSeatbelt(resolve seatbelt.Resolve, program, home string) ([]string, error) {
	p := seatbelt.Profile{
		Read:         append(installation(program, home), named(m.kernel, m.initrd, m.firmware, m.rootfs.path)...),
		Write:        named(m.disk.path),
		SharedMemory: []string{"^/qemu-[0-9]+-shm-[0-9]+$"}, // memory-backend-shm
		Hypervisor:   m.accel == "hvf",
	}
	for _, end := range []string{m.console, m.control, m.monitor, m.network, m.cable} {
		socket, has := strings.CutPrefix(end, "path=")
		if !has {
			continue
		}
		socket, server := strings.CutSuffix(socket, listens)
		socket = strings.ReplaceAll(socket, ",,", ",") // see value
		if server {
			p.Listen = append(p.Listen, socket)
		} else {
			p.Connect = append(p.Connect, socket)
		}
	}
	return p.Line(resolve, program, m.args())
}

// named leaves out the paths of what is not there.
func named(paths ...string) (all []string) {
	for _, name := range paths {
		if name != "" {
			all = append(all, name)
		}
	}
	return all
}

// installation is where QEMU's libraries and firmware are: the directory above bin, or that of all of Homebrew's packages. It is never one that
// the user's home is in.
func installation(program, home string) []string {
	prefix, _, homebrew := strings.Cut(program, "/Cellar/")
	if !homebrew {
		dir := path.Dir(program)
		if prefix = path.Dir(dir); path.Base(dir) != "bin" || prefix == "/" {
			prefix = dir
		}
	}
	if prefix == "" || lexical.Within(home, prefix) {
		return nil // the program itself is read all the same
	}
	return []string{prefix}
}
