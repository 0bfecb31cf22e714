package launch

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/hypervisor/jail/places"
)

// remarkServed tells of the folders that are Windows', in WSL. Few file systems can be such, so that mountinfo is seldom read.
func (l *Launcher) remarkServed(dirs []api.Directory) {
	for _, d := range dirs {
		var fs unix.Statfs_t
		if err := unix.Statfs(d.Path, &fs); err != nil || fs.Type != unix.V9FS_MAGIC && fs.Type != unix.FUSE_SUPER_MAGIC {
			continue
		}
		text, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return
		}
		if places.ServedBy(string(text), d.Path) == places.Windows {
			l.Remark(fmt.Sprintf("sandbox: %s lies on a drive of Windows: what Windows' programs change there is not announced to Linux, and each call takes longer; a folder of Linux's own (~) is better", console.Shown(d.Path)))
		}
	}
}
