package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// errNoApt says what else there is where apt is not.
var errNoApt = errors.New("image: this system has no apt to get packages with; take an image that was built ('sandbox guest fetch'), or name files of your own: --kernel-package and --busybox-package (.deb), or --kernel-path and --initrd-path")

// apt gets packages of one architecture. It reads the system's lists of
// packages; where they do not know one (they were never fetched, the
// architecture is foreign), or know one that is no longer to be had, it fetches
// lists of its own into work. It needs no root for either.
type apt struct {
	work, arch string
	log        *slog.Logger
	own        []string // options for the lists of our own, once they are there
}

// get downloads a package, resolving one that only names another
// (linux-image-cloud-amd64) first, and returns its file.
func (a *apt) get(ctx context.Context, name string) (string, error) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return "", errNoApt
	}
	file, err := a.download(ctx, name)
	if err == nil || a.own != nil || ctx.Err() != nil {
		return file, err
	}
	a.log.Info("fetching lists of packages", "component", "image", "err", err)
	if uerr := a.update(ctx); uerr != nil {
		return "", errors.Join(err, uerr)
	}
	return a.download(ctx, name)
}

// update fetches the lists, from the sources of the system.
func (a *apt) update(ctx context.Context) error {
	dir := filepath.Join(a.work, "apt")
	for _, d := range []string{"lists/partial", "cache/archives/partial", "state"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return fmt.Errorf("image: %w", err)
		}
	}
	own := []string{
		"-o", "Dir::State=" + filepath.Join(dir, "state"), "-o", "Dir::State::lists=" + filepath.Join(dir, "lists"),
		"-o", "Dir::State::status=/dev/null", "-o", "Dir::Cache=" + filepath.Join(dir, "cache"),
		"-o", "APT::Architecture=" + a.arch, "-o", "APT::Architectures=" + a.arch, "-o", "Acquire::Languages=none",
		"-o", "APT::Update::Post-Invoke::=", "-o", "APT::Update::Post-Invoke-Success::=",
	}
	a.own = own
	if _, err := a.run(ctx, "apt-get", "update"); err != nil {
		a.own = nil
		return err
	}
	return nil
}

func (a *apt) download(ctx context.Context, name string) (string, error) {
	name, err := a.resolve(ctx, name)
	if err != nil {
		return "", err
	}
	if _, err := a.run(ctx, "apt-get", "download", name+":"+a.arch); err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(a.work, name+"_*.deb"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("image: apt-get download %s left %d files", name, len(files))
	}
	return files[0], nil
}

// resolve returns what a meta package of the kernel depends on, or the name of
// any other package that apt knows.
func (a *apt) resolve(ctx context.Context, name string) (string, error) {
	out, err := a.run(ctx, "apt-cache", "show", "--no-all-versions", name+":"+a.arch)
	if err != nil || len(out) == 0 {
		return "", fmt.Errorf("image: apt does not know the package %s for %s: %w; name files of your own: --kernel-package and --busybox-package", name, a.arch, errors.Join(err, errNoPackage))
	}
	for line := range strings.Lines(out) {
		if deps, ok := strings.CutPrefix(line, "Depends:"); ok {
			first, _, _ := strings.Cut(strings.TrimSpace(deps), " ")
			if strings.HasPrefix(first, "linux-image-") {
				return strings.TrimRight(first, ","), nil
			}
		}
	}
	return name, nil
}

var errNoPackage = errors.New("none of its sources has it")

// run runs a program of apt's in work and returns what it prints.
func (a *apt) run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, append(append([]string{"-q", "-o", "APT::Sandbox::User=", "-o", "Acquire::Retries=3"}, a.own...), args...)...)
	cmd.Dir = a.work
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("image: %s %s: %w: %s", program, strings.Join(args, " "), err, lastLine(said.String()))
	}
	return out.String(), nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// howToBuild is what to do where there is no image.
const howToBuild = "run 'sandbox guest build'"
