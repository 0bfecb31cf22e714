//go:build !linux

package image

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// apt is Debian's alone.
type apt struct {
	work, arch string
	log        *slog.Logger
}

func (a *apt) get(_ context.Context, name string) (string, error) {
	return "", fmt.Errorf("image: packages cannot be downloaded here: take an image that was built (sandbox guest fetch), or name the files of %s for %s yourself (--kernel-package, --busybox-package): %w", name, a.arch, errors.ErrUnsupported)
}

// howToBuild is what to do where there is no image.
const howToBuild = "take that of a release with 'sandbox guest fetch', or build one on Linux ('sandbox guest build --generic --archive FILE') and fetch that file"
