package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/u-root/u-root/pkg/cpio"
)

// ErrNone is wrapped where no image was built yet.
var ErrNone = errors.New("image: none was built; " + howToBuild)

// DefaultDir is where the user's images are: below $XDG_CACHE_HOME or what this
// system has in its place.
func DefaultDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("image: no place for the guest's image: %w", err)
	}
	return filepath.Join(cache, "sandbox", "guest"), nil
}

// Open finds the image that was built for an architecture. The error wraps
// ErrNone if there is none that this version can use.
func Open(dir, arch string) (Image, error) {
	i := Image{Dir: filepath.Join(dir, arch)}
	text, err := os.ReadFile(filepath.Join(i.Dir, manifestFile))
	if err != nil {
		return Image{}, fmt.Errorf("%w (%w)", ErrNone, err)
	}
	if err := json.Unmarshal(text, &i.Manifest); err != nil {
		return Image{}, fmt.Errorf("%w (%s: %w)", ErrNone, filepath.Join(i.Dir, manifestFile), err)
	}
	if i.Manifest.Format != format || i.Manifest.Arch != arch {
		return Image{}, fmt.Errorf("%w (the one in %s has format %d for %q, not %d)", ErrNone, i.Dir, i.Manifest.Format, i.Manifest.Arch, format)
	}
	return i, nil
}

// Verify compares every byte with what was built. The error wraps ErrNone.
func (i Image) Verify() error {
	for _, name := range []string{kernelFile, baseFile} {
		f, err := i.open(name)
		if err != nil {
			return err
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("image: %w", err)
		}
		if hex.EncodeToString(h.Sum(nil)) != i.Manifest.Files[name].SHA256 {
			return i.damaged(name)
		}
	}
	return nil
}

func (i Image) damaged(name string) error {
	return fmt.Errorf("%w again (%s is not what was built)", ErrNone, filepath.Join(i.Dir, name))
}

// open opens a file of the image and checks it.
func (i Image) open(name string) (*os.File, error) {
	f, err := os.Open(filepath.Join(i.Dir, name))
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNone, err)
	}
	crc := crc32.New(castagnoli())
	n, err := io.CopyBuffer(struct{ io.Writer }{crc}, struct{ io.Reader }{f}, make([]byte, 1<<20))
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("image: %s: %w", f.Name(), err), f.Close())
	}
	if want := i.Manifest.Files[name]; n != want.Bytes || crc.Sum32() != want.CRC32C {
		return nil, errors.Join(i.damaged(name), f.Close())
	}
	return f, nil
}

// Source says what a machine is to boot.
type Source struct {
	// Dir and Arch find the image that was built.
	Dir, Arch string
	// Guest is the guest's program, the first that runs inside. It is added to
	// the initramfs as /init, so that it is that of the running version.
	Guest []byte
	// KernelPath, InitrdPath and RootFSPath are files of the user's own, which
	// are taken as they are. With the first two neither an image nor Guest is
	// needed.
	KernelPath, InitrdPath, RootFSPath string
	// NoRootFS leaves the guest with busybox, even if a root file system was built.
	NoRootFS bool
}

// Files are open files, which belong to the caller.
type Files struct {
	Kernel *os.File
	// Initrd may have no name: it is to be opened by its descriptor.
	Initrd *os.File
	// RootFS is the guest's root file system, open for reading, or nil.
	RootFS *os.File
	// Version of the kernel; empty if it is the user's own.
	Version string
}

// Close closes them.
func (f Files) Close() error {
	var errs []error
	for _, file := range []*os.File{f.Kernel, f.Initrd, f.RootFS} {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	return errors.Join(errs...)
}

// Open opens everything and checks what was built. The error says what to do;
// it wraps ErrNone if there is no image and one is needed.
func (s Source) Open() (f Files, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
			f = Files{}
		}
	}()
	if len(s.Guest) == 0 && s.InitrdPath == "" {
		return f, errors.New("image: this sandbox was built without the guest's program; 'make build' makes one that has it")
	}
	var built Image
	if s.KernelPath == "" || s.InitrdPath == "" {
		if built, err = Open(s.Dir, s.Arch); err != nil {
			return f, err
		}
	}
	if s.KernelPath == "" {
		f.Version = built.Manifest.Kernel
		f.Kernel, err = built.open(kernelFile)
	} else {
		f.Kernel, err = openOwn("--kernel-path", s.KernelPath, os.O_RDONLY)
	}
	if err != nil {
		return f, err
	}
	if s.InitrdPath == "" {
		f.Initrd, err = built.initramfs(s.Guest)
	} else {
		f.Initrd, err = openOwn("--initrd-path", s.InitrdPath, os.O_RDONLY)
	}
	if err != nil {
		return f, err
	}
	f.RootFS, err = s.rootFS()
	return f, err
}

// rootFS opens the user's own, or the one that was built, if there is one.
func (s Source) rootFS() (*os.File, error) {
	if s.RootFSPath != "" {
		return openOwn("--rootfs-path", s.RootFSPath, os.O_RDONLY)
	}
	if s.NoRootFS || s.Dir == "" {
		return nil, nil
	}
	r, err := OpenRootFS(s.Dir, s.Arch)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return r.open()
}

func openOwn(flag, path string, mode int) (*os.File, error) {
	st, err := os.Stat(path)
	if err == nil && !st.Mode().IsRegular() && st.Mode()&os.ModeDevice == 0 {
		err = fmt.Errorf("%s is neither a file nor a device", path)
	}
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(path, mode, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("image: %s: %w", flag, err)
	}
	return f, nil
}

// initramfs is base.cpio with the guest's program behind it: the kernel unpacks
// one archive after the other. It is a file without a name.
func (i Image) initramfs(guest []byte) (f *os.File, err error) {
	base, err := i.open(baseFile)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	var own bytes.Buffer
	if err := writeCPIO(&own, []cpio.Record{cpio.StaticFile("init", string(guest), 0o755)}); err != nil {
		return nil, err
	}
	if f, err = anonymous(); err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	_, err = io.Copy(f, io.MultiReader(base, &own))
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("image: %w", err), f.Close())
	}
	return f, nil
}
