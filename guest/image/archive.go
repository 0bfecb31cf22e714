package image

import (
	"archive/tar"
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
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// The limits of an archive.
const (
	maxArchive  = 256 << 20 // the whole, compressed
	maxManifest = 1 << 20
	window      = 8 << 20 // what zstd looks back
)

// ErrArchive is wrapped by what is wrong with an archive.
var ErrArchive = errors.New("image: not a usable archive of an image (take the file of a release for this version, or one that 'sandbox guest build --archive' has made)")

// archived are the files of an archive, in their order: the first says what the others must be.
func archived() []string { return []string{manifestFile, kernelFile, baseFile} }

// Pack writes an image as an archive, for [Fetch] on another machine: a tar with its three files, compressed by
// zstd. The same image gives the same bytes. An image that is not whole any more is an error that wraps [ErrNone].
func (i Image) Pack(w io.Writer) error {
	if err := i.Verify(); err != nil {
		return err
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	t := tar.NewWriter(z)
	for _, name := range archived() {
		if err := pack(t, filepath.Join(i.Dir, name)); err != nil {
			return errors.Join(err, z.Close())
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	return nil
}

func pack(t *tar.Writer, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil {
		err = t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.Base(file), Size: st.Size(), Mode: 0o644, ModTime: time.Unix(0, 0)})
	}
	if err == nil {
		_, err = io.Copy(t, f)
	}
	if err != nil {
		return fmt.Errorf("image: %s: %w", file, err)
	}
	return nil
}

// unpack writes the image in an archive into the empty directory out. It takes the three files by their own names, in their
// order, and nothing else; no name out of the archive becomes a path. An error of the disk is a [fs.PathError] and not ErrArchive.
func unpack(r io.Reader, arch, out string) (m Manifest, err error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return m, fmt.Errorf("%w: %w", ErrArchive, err)
	}
	defer z.Close()
	t := tar.NewReader(z)
	for _, name := range archived() {
		h, err := t.Next()
		switch {
		case err == io.EOF:
			return m, fmt.Errorf("%w: it ends before %s", ErrArchive, name)
		case err != nil:
			return m, fmt.Errorf("%w: %w", ErrArchive, err)
		case h.Name != name || h.Typeflag != tar.TypeReg:
			return m, fmt.Errorf("%w: it has %q where the file %s should be", ErrArchive, h.Name, name)
		}
		if name == manifestFile {
			m, err = takeManifest(t, arch, filepath.Join(out, name))
		} else {
			err = take(t, m.Files[name], filepath.Join(out, name))
		}
		if err != nil {
			return m, fmt.Errorf("%s: %w", name, err)
		}
	}
	if h, err := t.Next(); err == nil {
		return m, fmt.Errorf("%w: it has %q too", ErrArchive, h.Name)
	} else if err != io.EOF {
		return m, fmt.Errorf("%w: %w", ErrArchive, err)
	}
	return m, nil
}

// ArchiveManifest reads what an archive says that it is; nothing of it is compared.
func ArchiveManifest(r io.Reader) (m Manifest, err error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return m, fmt.Errorf("%w: %w", ErrArchive, err)
	}
	defer z.Close()
	t := tar.NewReader(z)
	h, err := t.Next()
	if err == nil && h.Name != manifestFile {
		err = fmt.Errorf("it begins with %q", h.Name)
	}
	var text []byte
	if err == nil {
		text, err = readLimited(t, maxManifest)
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, fmt.Errorf("%w: %w", ErrArchive, err)
	}
	return m, nil
}

func takeManifest(r io.Reader, arch, file string) (m Manifest, err error) {
	text, err := readLimited(r, maxManifest)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err == nil {
		err = m.check(arch)
	}
	if err != nil {
		return m, fmt.Errorf("%w: %w", ErrArchive, err)
	}
	return m, os.WriteFile(file, text, 0o644)
}

var kernelVersion = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9.+~_-]{1,100}$`) })

// check says why an image that was made elsewhere is of no use here.
func (m Manifest) check(arch string) error {
	switch {
	case m.Format != format:
		return fmt.Errorf("its format is %d, and this version of the program takes %d", m.Format, format)
	case m.Arch != arch:
		return fmt.Errorf("it is for %q, not for %s: take the file for %s, or name another --arch", m.Arch, arch, arch)
	case !kernelVersion().MatchString(m.Kernel) || !slices.Contains([]string{"pvh", "bzimage", "image"}, m.Boot):
		return fmt.Errorf("its kernel is %q, which boots by %q", m.Kernel, m.Boot)
	case len(m.Files) != len(archived())-1:
		return fmt.Errorf("it names %d files", len(m.Files))
	}
	for _, name := range archived()[1:] {
		if n := m.Files[name].Bytes; n <= 0 || n > maxMember {
			return fmt.Errorf("%s has %d bytes; a file of an image has up to %d", name, n, maxMember)
		}
	}
	return nil
}

// take writes a file that must be what its manifest says.
func take(r io.Reader, want Sum, file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	sha, crc := sha256.New(), crc32.New(castagnoli())
	n, err := io.Copy(io.MultiWriter(f, sha, crc), io.LimitReader(r, want.Bytes+1))
	if err = errors.Join(err, f.Close()); err != nil {
		if errors.As(err, new(*fs.PathError)) { // of the disk
			return err
		}
		return fmt.Errorf("%w: %w", ErrArchive, err)
	}
	if got := (Sum{Bytes: n, SHA256: hex.EncodeToString(sha.Sum(nil)), CRC32C: crc.Sum32()}); got != want {
		return fmt.Errorf("%w: it is not what the manifest says", ErrArchive)
	}
	return nil
}

// sumLine is a line of sha256sum, with the mark of a binary file or without.
var sumLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^([0-9a-fA-F]{64}) [ *](.+?)\r?$`) })

// findSum looks a file up in the text of a list of checksums.
func findSum(text []byte, name string) (string, error) {
	found := ""
	for _, m := range sumLine().FindAllSubmatch(text, -1) {
		sum := string(bytes.ToLower(m[1]))
		if string(m[2]) != name {
			continue
		}
		if found != "" && found != sum {
			return "", fmt.Errorf("it has two checksums of %s", name)
		}
		found = sum
	}
	if found == "" {
		return "", fmt.Errorf("it has no line for %s: take the list that was published with that file", name)
	}
	return found, nil
}
