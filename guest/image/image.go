package image

import (
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

// format changes when images of older versions are of no use any more.
const format = 3

// Options of [Build].
type Options struct {
	// Dir is where images are kept, each architecture in a directory of its own.
	Dir string
	// Arch is Go's name of the architecture: amd64 or arm64.
	Arch string
	// Generic takes the distribution's general kernel instead of the one for
	// clouds: larger, but it speaks 9P too.
	Generic bool
	// Modules are others of the kernel that are to be in the initramfs, too. Nothing in it
	// loads them; the file OthersFile lists them, with those that they need before them.
	Modules []string
	// KernelPackage and BusyboxPackage are .deb files to take instead of the
	// distribution's.
	KernelPackage, BusyboxPackage string
	// Logger may be nil.
	Logger *slog.Logger
}

// Image is a finished image.
type Image struct {
	Dir      string
	Manifest Manifest
}

// Manifest describes an image; it is what lies in manifest.json.
type Manifest struct {
	Format  int               `json:"format"`
	Arch    string            `json:"arch"`
	Kernel  string            `json:"kernel"` // its version
	Boot    string            `json:"boot"`   // "pvh" or "bzimage" or "image"
	Modules []string          `json:"modules"`
	Applets int               `json:"applets"`
	Sources map[string]string `json:"sources"` // package file: SHA-256
	// BuiltFrom are the source packages of what these packages hold, as apt-get source takes them: NAME=VERSION. Who hands the image on owes them.
	BuiltFrom []string       `json:"built_from,omitempty"`
	Files     map[string]Sum `json:"files"`
}

// Generic reports whether the kernel is the distribution's general one: it is not the one that Debian makes for clouds.
func (m Manifest) Generic() bool { return !strings.Contains(m.Kernel, "-cloud-") }

// Sum is what a file of an image must be. Every opening checks the CRC, which
// takes no time and finds damage; [Image.Verify] checks all of it.
type Sum struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	CRC32C uint32 `json:"crc32c"`
}

// OthersFile lists Options.Modules in the initramfs: one path a line, in the order in which they can be loaded.
const OthersFile = "lib/modules/list-others"

// The files of an image.
const (
	kernelFile   = "kernel"
	baseFile     = "base.cpio"
	manifestFile = "manifest.json"
)

// Build makes the image for an architecture, replacing one that is there. It
// downloads packages; ctx ends that. What was there stays if it fails.
func Build(ctx context.Context, o Options) (Image, error) {
	if o.Arch != "amd64" && o.Arch != "arm64" {
		return Image{}, fmt.Errorf("image: no guest for architecture %q; there is amd64 and arm64", o.Arch)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	work, err := workspace(o.Dir)
	if err != nil {
		return Image{}, err
	}
	defer os.RemoveAll(work)
	b := &build{o: o, work: work, out: filepath.Join(work, "image"), apt: apt{work: work, arch: o.Arch, log: o.Logger}}
	b.manifest = Manifest{Format: format, Arch: o.Arch, Sources: map[string]string{}, Files: map[string]Sum{}}
	if err := os.Mkdir(b.out, 0o755); err != nil {
		return Image{}, fmt.Errorf("image: %w", err)
	}
	if err := b.run(ctx); err != nil {
		return Image{}, err
	}
	final := filepath.Join(o.Dir, o.Arch)
	if err := replace(b.out, final, filepath.Join(work, "old")); err != nil {
		return Image{}, fmt.Errorf("image: %w", err)
	}
	return Image{Dir: final, Manifest: b.manifest}, nil
}

// workspace makes a directory beside the images, in which one is made that gets its place by a rename. The caller removes it.
func workspace(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("image: %w", err)
	}
	dir, err := filepath.Abs(dir) // apt's options are no paths below where we are
	if err != nil {
		return "", fmt.Errorf("image: %w", err)
	}
	work, err := os.MkdirTemp(dir, ".build-")
	if err != nil {
		return "", fmt.Errorf("image: %w", err)
	}
	removeStale(dir)
	return work, nil
}

// removeStale removes what builds left that were killed.
func removeStale(dir string) {
	const longAgo = 24 * time.Hour
	left, _ := filepath.Glob(filepath.Join(dir, ".build-*"))
	for _, d := range left {
		if st, err := os.Lstat(d); err == nil && time.Since(st.ModTime()) > longAgo {
			_ = os.RemoveAll(d) // the next build tries again
		}
	}
}

// replace puts a directory in the place of another, which goes to old. Where the
// system cannot exchange two names there is a moment without either. The other is
// where it was if that fails.
func replace(from, to, old string) error {
	if exchange(from, to) == nil {
		return nil // what was there is removed with the rest of from's directory
	}
	if err := os.Rename(to, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := os.Rename(from, to)
	if err != nil {
		_ = os.Rename(old, to) // there may have been none
	}
	return err
}

// build is one run of Build.
type build struct {
	o         Options
	work, out string
	apt       apt
	manifest  Manifest
}

func (b *build) run(ctx context.Context) error {
	kernel := "linux-image-cloud-" + b.o.Arch
	if b.o.Generic {
		kernel = "linux-image-" + b.o.Arch
	}
	modules, err := b.takeKernel(ctx, kernel)
	if err != nil {
		return err
	}
	busybox, err := b.takeBusybox(ctx)
	if err != nil {
		return err
	}
	applets, err := b.applets(ctx, busybox)
	if err != nil {
		return err
	}
	b.manifest.Applets = len(applets)
	for _, m := range modules.all() {
		b.manifest.Modules = append(b.manifest.Modules, m.name)
	}
	var base bytes.Buffer
	if err := writeCPIO(&base, baseRecords(busybox, applets, modules)); err != nil {
		return err
	}
	if err := b.write(baseFile, base.Bytes()); err != nil {
		return err
	}
	text, err := json.MarshalIndent(b.manifest, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.out, manifestFile), append(text, '\n'), 0o644)
}

func (b *build) write(name string, content []byte) error {
	b.manifest.Files[name] = Sum{Bytes: int64(len(content)), SHA256: sum(content), CRC32C: crc32.Checksum(content, castagnoli())}
	return os.WriteFile(filepath.Join(b.out, name), content, 0o644)
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}

// open gets a package: the file that the user named, or the distribution's.
func (b *build) open(ctx context.Context, own, name string) (*os.File, error) {
	file := own
	if file == "" {
		b.o.Logger.Info("downloading", "component", "image", "package", name)
		var err error
		if file, err = b.apt.get(ctx, name); err != nil {
			return nil, err
		}
	}
	f, _, err := openFile(file)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		f.Close()
		return nil, fmt.Errorf("image: %s: %w", file, err)
	}
	b.manifest.Sources[filepath.Base(file)] = hex.EncodeToString(h.Sum(nil))
	_, err = f.Seek(0, io.SeekStart)
	if err == nil {
		var from []string
		from, err = builtFrom(f)
		b.manifest.BuiltFrom = append(b.manifest.BuiltFrom, from...)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("image: %s: %w", file, err)
	}
	return f, nil
}

var kernelName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^boot/vmlinuz-([A-Za-z0-9.+~_-]+)$`) })

// takeKernel writes the kernel and returns the modules to load, as loadOrder does.
func (b *build) takeKernel(ctx context.Context, name string) (loads, error) {
	f, err := b.open(ctx, b.o.KernelPackage, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var image, builtin []byte
	all := map[string]*module{}
	want := func(n string) bool {
		_, _, ko := moduleName(n)
		return ko || kernelName().MatchString(n) || strings.HasSuffix(n, "/modules.builtin")
	}
	err = readPackage(f, want, func(n string, content []byte) error {
		if v := kernelName().FindStringSubmatch(n); v != nil {
			image, b.manifest.Kernel = content, v[1]
			return nil
		}
		mod, packed, ok := moduleName(n)
		if !ok {
			builtin = content
			return nil
		}
		if packed != "" {
			z, err := decompress(packed, bytes.NewReader(content))
			if err != nil {
				return err
			}
			defer z.Close()
			if content, err = readLimited(z, maxMember); err != nil {
				return fmt.Errorf("%w: %s: %w", ErrPackage, n, err)
			}
		}
		m, err := parseModule(mod, content)
		if err != nil {
			return err
		}
		all[mod] = m
		return nil
	})
	if err != nil {
		return nil, err
	}
	if image == nil {
		return nil, fmt.Errorf("%w: no boot/vmlinuz in %s", ErrPackage, filepath.Base(f.Name()))
	}
	b.manifest.Boot = "image"
	if b.o.Arch == "amd64" {
		b.manifest.Boot = "bzimage"
		if elf, err := vmlinux(image); err == nil {
			image, b.manifest.Boot = elf, "pvh"
		} else {
			b.o.Logger.Warn("the kernel is booted as it is, which takes longer", "component", "image", "err", err)
		}
	}
	if err := b.write(kernelFile, image); err != nil {
		return nil, err
	}
	return loadOrder(listsWith(b.o.Modules), all, parseBuiltin(builtin))
}

func (b *build) takeBusybox(ctx context.Context) ([]byte, error) {
	f, err := b.open(ctx, b.o.BusyboxPackage, "busybox-static")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var busybox []byte
	err = readPackage(f,
		func(n string) bool { return n == "bin/busybox" || n == "usr/bin/busybox" },
		func(_ string, content []byte) error { busybox = content; return nil })
	if err == nil && busybox == nil {
		err = fmt.Errorf("%w: no busybox in %s", ErrPackage, filepath.Base(f.Name()))
	}
	return busybox, err
}

// sortedApplets cleans what busybox says it can do.
func sortedApplets(out string) []string {
	var names []string
	for n := range strings.Lines(out) {
		if n = strings.TrimSpace(n); n != "" && fs.ValidPath(n) && !strings.Contains(n, "/") {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
