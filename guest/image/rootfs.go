package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// rootFormat changes when root file systems of older versions are of no use any
// more.
const rootFormat = 1

// rootFile is the root file system, a squashfs, in a directory of its own.
const rootFile = "rootfs.squashfs"

// RootFSOptions of [BuildRootFS].
type RootFSOptions struct {
	// Dir and Arch are those of [Options].
	Dir, Arch string
	// Suite is Debian's name of a release (this system's if that is Debian, else
	// "stable", if empty), Mirror where it is to be had (Debian's own if empty).
	Suite, Mirror string
	// Include are packages beside [DefaultPackages], or, if Minimal is set,
	// beside the essential ones alone.
	Include []string
	Minimal bool
	// Epoch is the newest time that a file may have; today's midnight if zero. The
	// same packages with the same Epoch give the same bytes.
	Epoch time.Time
	// Logger may be nil.
	Logger *slog.Logger
}

// DefaultPackages are what most work needs, beside what is essential to Debian.
func DefaultPackages() []string {
	return []string{
		"build-essential", "bzip2", "ca-certificates", "curl", "file", "git", "jq", "less", "openssh-client", "patch", "pkg-config",
		"procps", "python3", "python3-pip", "python3-venv", "ripgrep", "rsync", "unzip", "xz-utils", "zip",
	}
}

// RootManifest describes a root file system; it is what lies in manifest.json.
type RootManifest struct {
	Format   int               `json:"format"`
	Arch     string            `json:"arch"`
	Suite    string            `json:"suite"`
	Asked    []string          `json:"asked"`    // packages that were asked for
	Packages map[string]string `json:"packages"` // all that are in it, with versions
	Epoch    int64             `json:"epoch"`    // seconds since 1970
	File     Sum               `json:"file"`
}

// RootFS is a finished root file system.
type RootFS struct {
	Dir      string
	Manifest RootManifest
}

// Path is the file's, a squashfs.
func (r RootFS) Path() string { return filepath.Join(r.Dir, rootFile) }

// rootDir is where the root file system for an architecture is.
func rootDir(dir, arch string) string { return filepath.Join(dir, "debian-"+arch) }

// check fills in defaults.
func (o *RootFSOptions) check() error {
	if o.Arch != "amd64" && o.Arch != "arm64" {
		return fmt.Errorf("image: no guest for architecture %q; there is amd64 and arm64", o.Arch)
	}
	if o.Suite == "" {
		o.Suite = hostSuite("/etc/os-release")
	}
	if o.Epoch.IsZero() {
		o.Epoch = time.Now().UTC().Truncate(24 * time.Hour)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if !o.Minimal {
		o.Include = append(DefaultPackages(), o.Include...)
	}
	slices.Sort(o.Include)
	o.Include = slices.Compact(o.Include)
	for _, p := range o.Include {
		if !packageName().MatchString(p) {
			return fmt.Errorf("image: %q is not the name of a package", p)
		}
	}
	if !suiteName().MatchString(o.Suite) {
		return fmt.Errorf("image: %q is not the name of a suite", o.Suite)
	}
	if o.Mirror != "" && !strings.Contains(o.Mirror, "://") {
		return fmt.Errorf("image: the mirror %q is no URL", o.Mirror)
	}
	return nil
}

// hostSuite is the release of this system, if it is a Debian that says so.
func hostSuite(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return "stable"
	}
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = strings.Trim(value, `"'`)
	}
	if name := values["VERSION_CODENAME"]; values["ID"] == "debian" && suiteName().MatchString(name) {
		return name
	}
	return "stable"
}

// What these name becomes words of a command line.
var (
	packageName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`) })
	suiteName   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9.-]*$`) })
)

// BuildRootFS makes Debian's root file system for an architecture, replacing one
// that is there. It downloads packages; ctx ends that. What was there stays if it
// fails. It needs mmdebstrap and squashfs-tools, and no root where the user may
// have user namespaces with several users (/etc/subuid).
func BuildRootFS(ctx context.Context, o RootFSOptions) (RootFS, error) {
	if err := o.check(); err != nil {
		return RootFS{}, err
	}
	work, err := workspace(o.Dir)
	if err != nil {
		return RootFS{}, err
	}
	defer os.RemoveAll(work)
	out := filepath.Join(work, "rootfs")
	if err := os.Mkdir(out, 0o755); err != nil {
		return RootFS{}, fmt.Errorf("image: %w", err)
	}
	m := RootManifest{Format: rootFormat, Arch: o.Arch, Suite: o.Suite, Asked: o.Include, Epoch: o.Epoch.Unix()}
	if m.Packages, err = debian(ctx, o, filepath.Join(out, rootFile)); err != nil {
		return RootFS{}, err
	}
	if m.File, err = sumFile(filepath.Join(out, rootFile)); err != nil {
		return RootFS{}, err
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(out, manifestFile), append(text, '\n'), 0o644)
	}
	if err == nil {
		err = replace(out, rootDir(o.Dir, o.Arch), filepath.Join(work, "old"))
	}
	if err != nil {
		return RootFS{}, fmt.Errorf("image: %w", err)
	}
	return RootFS{Dir: rootDir(o.Dir, o.Arch), Manifest: m}, nil
}

// errNoRoot is ErrNone for a root file system.
var errNoRoot error = noRoot{}

type noRoot struct{}

func (noRoot) Error() string {
	return "image: no usable Debian was built; run 'sandbox guest build --rootfs debian', or have busybox: vm.rootfs = \"none\", --rootfs-path none"
}

// Is implements the rule of [errors.Is].
func (noRoot) Is(target error) bool { return target == ErrNone }

// OpenRootFS finds the root file system that was built for an architecture. The
// error wraps ErrNone if there is none that this version can use.
func OpenRootFS(dir, arch string) (RootFS, error) {
	r := RootFS{Dir: rootDir(dir, arch)}
	text, err := os.ReadFile(filepath.Join(r.Dir, manifestFile))
	if err == nil {
		err = json.Unmarshal(text, &r.Manifest)
	}
	if err != nil {
		return RootFS{}, fmt.Errorf("%w (%w)", errNoRoot, err)
	}
	if r.Manifest.Format != rootFormat || r.Manifest.Arch != arch {
		return RootFS{}, fmt.Errorf("%w (the one in %s has format %d for %q, not %d)", errNoRoot, r.Dir, r.Manifest.Format, r.Manifest.Arch, rootFormat)
	}
	return r, nil
}

// Verify compares every byte with what was built. The error wraps ErrNone.
func (r RootFS) Verify() error {
	f, err := r.open()
	if err != nil {
		return err
	}
	_ = f.Close()
	got, err := sumFile(r.Path())
	if err == nil && got != r.Manifest.File {
		err = r.damaged()
	}
	return err
}

func (r RootFS) damaged() error {
	return fmt.Errorf("%w again (%s is not what was built)", errNoRoot, r.Path())
}

// open opens the file for reading. It is too large to be read at every start:
// its size is what is looked at.
func (r RootFS) open() (*os.File, error) {
	f, err := os.Open(r.Path())
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", errNoRoot, err)
	}
	st, err := f.Stat()
	if err == nil && st.Size() != r.Manifest.File.Bytes {
		err = r.damaged()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// sumFile reads a whole file.
func sumFile(name string) (Sum, error) {
	f, err := os.Open(name)
	if err != nil {
		return Sum{}, fmt.Errorf("image: %w", err)
	}
	defer f.Close()
	sha, crc := sha256.New(), crc32.New(castagnoli())
	n, err := io.CopyBuffer(io.MultiWriter(sha, crc), struct{ io.Reader }{f}, make([]byte, 1<<20))
	if err != nil {
		return Sum{}, fmt.Errorf("image: %s: %w", name, err)
	}
	return Sum{Bytes: n, SHA256: hex.EncodeToString(sha.Sum(nil)), CRC32C: crc.Sum32()}, nil
}

// dpkgStatus is where a Debian system says what is installed.
const dpkgStatus = "var/lib/dpkg/status"

// installed reads a tar archive to its end and returns the packages that are
// installed in it, with their versions.
func installed(r io.Reader) (map[string]string, error) {
	var packages map[string]string
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("image: the root file system: %w", err)
		}
		if strings.TrimPrefix(h.Name, "./") != dpkgStatus {
			continue
		}
		text, err := readLimited(tr, maxMember)
		if err != nil {
			return nil, fmt.Errorf("image: %s: %w", h.Name, err)
		}
		packages = parseStatus(text)
	}
	// What pads the archive belongs to whoever else reads it.
	if _, err := io.Copy(io.Discard, r); err != nil {
		return nil, fmt.Errorf("image: the root file system: %w", err)
	}
	if len(packages) == 0 {
		return nil, fmt.Errorf("image: the root file system has no packages: %w", fs.ErrNotExist)
	}
	return packages, nil
}

// parseStatus reads dpkg's paragraphs.
func parseStatus(text []byte) map[string]string {
	packages := map[string]string{}
	name := ""
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch key {
		case "Package":
			name = value
		case "Version":
			packages[name] = value
		}
	}
	return packages
}
