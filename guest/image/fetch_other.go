//go:build !linux

package image

import (
	"context"
	"errors"
	"fmt"
)

func aptGet(_ context.Context, _, name, _ string) (string, error) {
	return "", fmt.Errorf("image: packages cannot be downloaded here: name the files of %s yourself (--kernel-package, --busybox-package): %w", name, errors.ErrUnsupported)
}
