package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/therootcompany/xz"
)

// maxMember bounds one file of a package: the largest is a kernel.
const maxMember = 256 << 20

// ErrPackage is wrapped by what is wrong with a package.
var ErrPackage = errors.New("image: not a usable package")

// readPackage calls take for every regular file of a Debian package (an ar
// archive with a compressed tar in it) whose name want accepts. Names are
// relative and clean. Hard links are given with the content of what they name
// if that was wanted too.
func readPackage(r io.Reader, want func(name string) bool, take func(name string, content []byte) error) error {
	return readMember(r, "data.tar", want, take)
}

// readMember is readPackage for one of the archives in the package.
func readMember(r io.Reader, member string, want func(name string) bool, take func(name string, content []byte) error) error {
	data, err := openMember(bufio.NewReaderSize(r, 1<<16), member)
	if err != nil {
		return err
	}
	defer data.Close()
	tr := tar.NewReader(data)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrPackage, err)
		}
		name := path.Clean(strings.TrimPrefix(h.Name, "./"))
		if h.Typeflag != tar.TypeReg || !fs.ValidPath(name) || !want(name) {
			continue
		}
		content, err := readLimited(tr, maxMember)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrPackage, name, err)
		}
		if err := take(name, content); err != nil {
			return err
		}
	}
}

// builtFrom are the source packages of what is in a package, as apt-get source takes them: NAME=VERSION. None are those of a package that
// says nothing about itself.
func builtFrom(r io.Reader) (sources []string, err error) {
	fields := map[string]string{}
	err = readMember(r, "control.tar", func(n string) bool { return n == "control" }, func(_ string, content []byte) error {
		key := ""
		for line := range strings.Lines(string(content)) {
			if k, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") {
				key = strings.ToLower(k)
				fields[key] = strings.TrimSpace(value)
			} else {
				fields[key] += " " + strings.TrimSpace(line)
			}
		}
		return nil
	})
	if errors.Is(err, errNoMember) || fields["package"] == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	own := fields["source"]
	if own == "" {
		own = fields["package"]
	}
	if !strings.Contains(own, "(") {
		own += " (" + fields["version"] + ")"
	}
	// Others' that are in it: a kernel is signed by another source package than the one that it is built of, and busybox has the C library in it.
	for one := range strings.SplitSeq(strings.Join([]string{own, fields["built-using"], fields["static-built-using"]}, ","), ",") {
		if name, version, ok := strings.Cut(one, "("); ok {
			sources = append(sources, strings.TrimSpace(name)+"="+strings.Trim(version, "= )"))
		}
	}
	return sources, nil
}

// errNoMember is wrapped where a package has no such archive.
var errNoMember = errors.New("no such archive in it")

// openMember finds an archive like data.tar.* in the ar archive and decompresses it.
func openMember(r *bufio.Reader, member string) (io.ReadCloser, error) {
	const magic = "!<arch>\n"
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(r, head); err != nil || string(head) != magic {
		return nil, fmt.Errorf("%w: no ar archive", ErrPackage)
	}
	for {
		h := make([]byte, 60)
		if _, err := io.ReadFull(r, h); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrPackage, member, errNoMember)
		}
		name := strings.TrimRight(string(h[:16]), " /")
		size, err := strconv.ParseInt(strings.TrimRight(string(h[48:58]), " "), 10, 64)
		if err != nil || size < 0 || string(h[58:]) != "`\n" {
			return nil, fmt.Errorf("%w: damaged ar header", ErrPackage)
		}
		if suffix, ok := strings.CutPrefix(name, member); ok {
			return decompress(suffix, io.LimitReader(r, size))
		}
		if _, err := io.CopyN(io.Discard, r, size+size%2); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPackage, err)
		}
	}
}

func decompress(suffix string, r io.Reader) (io.ReadCloser, error) {
	switch suffix {
	case "":
		return io.NopCloser(r), nil
	case ".gz":
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPackage, err)
		}
		return z, nil
	case ".xz":
		z, err := xz.NewReader(r, 128<<20)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPackage, err)
		}
		return io.NopCloser(z), nil
	case ".zst":
		z, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPackage, err)
		}
		return z.IOReadCloser(), nil
	case ".lz4":
		return io.NopCloser(lz4.NewReader(r)), nil
	}
	return nil, fmt.Errorf("%w: data.tar%s is compressed in an unknown way", ErrPackage, suffix)
}

func readLimited(r io.Reader, limit int64) ([]byte, error) {
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(r, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("larger than %d bytes", limit)
	}
	return b.Bytes(), err
}
