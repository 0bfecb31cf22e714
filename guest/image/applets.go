package image

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// applets asks busybox what it can do. One of another architecture cannot be
// asked: what it knows is found in its list of names, which the program holds as
// a block of NUL-separated words beginning with "[\0[[\0".
func (b *build) applets(ctx context.Context, busybox []byte) ([]string, error) {
	if b.o.Arch == runtime.GOARCH && runtime.GOOS == "linux" {
		file := filepath.Join(b.work, "busybox")
		if err := os.WriteFile(file, busybox, 0o755); err != nil {
			return nil, fmt.Errorf("image: %w", err)
		}
		out, err := exec.CommandContext(ctx, file, "--list").Output()
		if err == nil {
			return sortedApplets(string(out)), nil
		}
		b.o.Logger.Debug("busybox cannot be run", "component", "image", "err", err)
	}
	return appletNames(busybox)
}

func appletNames(busybox []byte) ([]string, error) {
	const maxNames = 32 << 10
	start := bytes.Index(busybox, []byte("[\x00[[\x00"))
	if start < 0 {
		return nil, fmt.Errorf("%w: no list of names in busybox", ErrPackage)
	}
	names := busybox[start:min(len(busybox), start+maxNames)]
	if end := bytes.Index(names, []byte("\x00\x00")); end >= 0 {
		names = names[:end]
	}
	return sortedApplets(string(bytes.ReplaceAll(names, []byte{0}, []byte{'\n'}))), nil
}
