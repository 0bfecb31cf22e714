package launch

import (
	"os"
	"slices"

	"github.com/codeagent/sandbox/hypervisor/seatbelt"
)

// serverProfile is what a session's supervisor may still do on macOS once its machine runs: use its own files, be reached in the runtime directory, end QEMU, and with a network be the
// guest's way to it. It starts nothing any more.
func serverProfile(f sessionFiles, runtimeDir string, network bool) seatbelt.Profile {
	there := func(paths []string) []string {
		return slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
			_, err := os.Lstat(path)
			return err != nil
		})
	}
	return seatbelt.Profile{
		Read: there(f.read), Write: there(f.write), Sockets: there([]string{runtimeDir}), Network: network, Children: true, Terminal: true,
	}
}
