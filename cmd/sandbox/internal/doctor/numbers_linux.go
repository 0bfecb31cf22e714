package doctor

import (
	"fmt"
	"strings"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/fsbridge/pidfiles"
)

// numberFindings says which files of the folder name live processes of this machine: inside, nobody has these numbers. There is none if there are none.
func (h Host) numberFindings() []Finding {
	folder, _, err := h.Folder()
	if err != nil {
		return nil // folderFinding says so
	}
	var lines []string
	for _, f := range pidfiles.Live(folder) {
		lines = append(lines, fmt.Sprintf("%s names process %d (%s)", console.Shown(f.Path), f.PID, console.Shown(f.Program)))
	}
	if len(lines) == 0 {
		return nil
	}
	return []Finding{{
		Name: "process numbers", State: "warn",
		Detail: strings.Join(lines, ", ") + ": it runs outside, and where numbers are others a program may take the file for stale",
		Advice: "end it before a command starts another one on the same data (docs/filesystems.md)",
	}}
}
