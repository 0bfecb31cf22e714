package doctor

import (
	"fmt"
	"os"
	"strings"

	"github.com/codeagent/sandbox/hypervisor/jail/places"
)

// kernelFinding asks for 5.12, the first with mount_setattr, and says whose guest this Linux is if that is its user's own system: release
// is the kernel's, lima whether Lima has made the machine.
func kernelFinding(release string, lima bool) Finding {
	f := Finding{Name: "kernel", State: "ok", Detail: "Linux " + release}
	var major, minor int
	_, err := fmt.Sscanf(release, "%d.%d", &major, &minor)
	old := err == nil && (major < 5 || (major == 5 && minor < 12))
	if old {
		f.State, f.Advice = "fail", "Linux 5.12 or later is needed"
	}
	switch {
	case strings.HasSuffix(release, "-Microsoft"): // with a capital letter: the calls are Windows'
		f.State, f.Detail = "fail", f.Detail+", which is WSL 1: there is no Linux kernel, so no jail can be made"
		f.Advice = "wsl --set-version DISTRIBUTION 2, from Windows"
	case strings.Contains(release, "microsoft") && old:
		f.Detail, f.Advice = f.Detail+" of WSL 2", "wsl --update, from Windows: Linux 5.12 or later is needed"
	case strings.Contains(release, "microsoft"):
		f.Detail += " of WSL 2"
	case lima:
		f.Detail += ", in Lima"
	}
	return f
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// servedFinding says that this folder is another system's, if it is.
func servedFinding(mountinfo, folder string) (f Finding, served bool) {
	f = Finding{Name: "where this folder lies", State: "warn"}
	switch by := places.ServedBy(mountinfo, folder); by {
	case "":
		return f, false
	case places.Windows:
		f.Detail = "on a drive of Windows, which was not tried: "
	default:
		f.Detail = "it is served by " + by + ": "
	}
	f.Detail += "edits that are made there are not announced here, so a session sees them late, and an undo finds them only when it looks at the file; each call takes longer"
	f.Advice = "keep the folder in a file system of this Linux (~), or see docs/filesystems.md"
	return f, true
}
