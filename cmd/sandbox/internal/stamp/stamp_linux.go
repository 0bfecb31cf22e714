package stamp

import (
	"os"
	"syscall"
	"time"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/stepline"
)

// step is longer than the steps in which a kernel counts times of change.
const step = 100 * time.Millisecond

// Of is the stamp of a file: which file it is, its size and its times. Empty if that is not known.
func Of(info os.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	text := ""
	for _, n := range [...]int64{int64(st.Dev), int64(st.Ino), st.Size, st.Mtim.Nano(), st.Ctim.Nano()} {
		text += stepline.Decimal(n) + ":"
	}
	return text
}

// Settled reports whether a change of a file after now cannot have the time of change that it has.
func Settled(info os.FileInfo, now time.Time) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && now.Sub(time.Unix(st.Ctim.Unix())) > step
}
