package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// aptGet downloads a package with apt into dir, resolving a package that only
// names another (linux-image-cloud-amd64) first, and returns its file.
func aptGet(ctx context.Context, dir, name, arch string) (string, error) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return "", errors.New("image: this system has no apt to get packages with; name files of your own: --kernel-package and --busybox-package (.deb), or --kernel-path and --initrd-path")
	}
	qualified := name + ":" + arch
	if real, err := realPackage(ctx, qualified); err != nil {
		return "", err
	} else if real != "" {
		qualified = real + ":" + arch
	}
	cmd := exec.CommandContext(ctx, "apt-get", "-q", "-o", "APT::Sandbox::User=", "download", qualified)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("image: apt-get download %s: %w: %s", qualified, err, lastLine(said.String()))
	}
	bare, _, _ := strings.Cut(qualified, ":")
	files, err := filepath.Glob(filepath.Join(dir, bare+"_*.deb"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("image: apt-get download %s left %d files", qualified, len(files))
	}
	return files[0], nil
}

// realPackage returns what a meta package of the kernel depends on, or nothing
// for a package that is one itself.
func realPackage(ctx context.Context, name string) (string, error) {
	cmd := exec.CommandContext(ctx, "apt-cache", "show", "--no-all-versions", name)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.Output()
	if err != nil || len(out) == 0 {
		return "", fmt.Errorf("image: apt does not know %s; run 'sudo apt-get update' (for a foreign architecture first 'sudo dpkg --add-architecture'), or name files of your own", name)
	}
	for line := range strings.Lines(string(out)) {
		if deps, ok := strings.CutPrefix(line, "Depends:"); ok {
			first, _, _ := strings.Cut(strings.TrimSpace(deps), " ")
			if strings.HasPrefix(first, "linux-image-") {
				return strings.TrimRight(first, ","), nil
			}
		}
	}
	return "", nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
