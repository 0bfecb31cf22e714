package launch

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// private makes sure that nobody but this user, administrators and the system can put anything into dir, which is no link. Nothing is put back:
// who else has rights there was given them.
func private(dir string) (opened fs.FileMode, err error) {
	st, err := os.Lstat(dir)
	if err == nil && !st.IsDir() {
		err = fmt.Errorf("it is no directory")
	}
	if err == nil {
		err = posix.OthersCanWritePath(dir)
	}
	if err != nil {
		return 0, fmt.Errorf("%s, where sessions register: %w; or set XDG_RUNTIME_DIR", dir, err)
	}
	return 0, nil
}
