package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// maxSums bounds a list of checksums.
const maxSums = 1 << 20

// standstill is how long a server may send nothing.
const standstill = time.Minute

// FetchOptions of [Fetch].
type FetchOptions struct {
	// Dir and Arch are those of [Options].
	Dir, Arch string
	// From is an archive that [Image.Pack] has written: a file, or an address (http, https).
	From string
	// SHA256 is the archive's checksum, in hex. Without it Sums is a list with a line for the archive's name,
	// as sha256sum writes it: a file, or an address, which must be of https or of this machine.
	SHA256, Sums string
	// Report, if it is not nil, is told how many bytes of how many are there; the second is -1 if that is not known.
	Report func(done, total int64)

	patience time.Duration // standstill, if 0
}

// Fetch installs an image that was built elsewhere, replacing one that is there. Nothing is read out of the archive
// before its checksum is that which was named. ctx ends it; what was there stays if it fails.
func Fetch(ctx context.Context, o FetchOptions) (Image, error) {
	if o.patience == 0 {
		o.patience = standstill
	}
	want, err := o.checksum(ctx)
	if err != nil {
		return Image{}, err
	}
	work, err := workspace(o.Dir)
	if err != nil {
		return Image{}, err
	}
	defer os.RemoveAll(work)
	out := filepath.Join(work, "image")
	if err := os.Mkdir(out, 0o755); err != nil {
		return Image{}, fmt.Errorf("image: %w", err)
	}
	archive, err := o.download(ctx, filepath.Join(work, "archive"), want)
	if err != nil {
		return Image{}, o.failed(err)
	}
	m, err := unpack(archive, o.Arch, out)
	if err = errors.Join(err, archive.Close(), context.Cause(ctx)); err != nil {
		return Image{}, o.failed(err)
	}
	i := Image{Dir: filepath.Join(o.Dir, o.Arch), Manifest: m}
	if err := replace(out, i.Dir, filepath.Join(work, "old")); err != nil {
		return Image{}, fmt.Errorf("image: %s cannot be replaced (end the machines that run from it, and try again): %w", i.Dir, err)
	}
	return i, nil
}

// failed says of an error which file it is about, and of one of the disk what can be done.
func (o *FetchOptions) failed(err error) error {
	if disk := (*fs.PathError)(nil); errors.As(err, &disk) && disk.Op == "write" {
		return fmt.Errorf("image: no image was installed; it needs up to 200 MB in %s (--image-dir names another place): %w", o.Dir, err)
	}
	return fmt.Errorf("%s: no image was installed: %w", shown(o.From), err)
}

// checksum is what the archive must have.
func (o *FetchOptions) checksum(ctx context.Context) (string, error) {
	if o.SHA256 != "" {
		if !hexSum().MatchString(o.SHA256) {
			return "", fmt.Errorf("image: %q is not the SHA-256 of a file: 64 hexadecimal digits", o.SHA256)
		}
		return strings.ToLower(o.SHA256), nil
	}
	if o.Sums == "" {
		return "", errors.New("image: no checksum was named, and nothing is installed without one")
	}
	r, _, err := o.open(ctx, o.Sums, true)
	if err != nil {
		return "", err
	}
	text, err := readLimited(r, maxSums)
	if err = errors.Join(err, r.Close()); err != nil {
		return "", fmt.Errorf("image: %s: %w", shown(o.Sums), err)
	}
	sum, err := findSum(text, baseName(o.From))
	if err != nil {
		return "", fmt.Errorf("image: %s: %w", shown(o.Sums), err)
	}
	return sum, nil
}

var hexSum = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-fA-F]{64}$`) })

// download copies the archive into file, which nobody else changes, and compares its checksum.
func (o *FetchOptions) download(ctx context.Context, file, want string) (_ *os.File, err error) {
	r, total, err := o.open(ctx, o.From, false)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if total > maxArchive {
		return nil, fmt.Errorf("%w: it has %d bytes, and none has more than %d", ErrArchive, total, maxArchive)
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	sha := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sha, &counted{total: total, report: o.Report}), io.LimitReader(r, maxArchive+1))
	switch {
	case errors.As(err, new(*fs.PathError)): // of a disk
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("image: it broke off after %d bytes; try again: %w", n, err)
	case n > maxArchive:
		return nil, fmt.Errorf("%w: it has more than %d bytes", ErrArchive, maxArchive)
	}
	if got := hex.EncodeToString(sha.Sum(nil)); got != want {
		return nil, fmt.Errorf("image: its SHA-256 is %s, and not %s: it is damaged, or another file than the one that was meant; get it again, from where the checksum is from", got, want)
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, err
}

// counted tells how much went by.
type counted struct {
	done, total int64
	report      func(done, total int64)
}

func (c *counted) Write(b []byte) (int, error) {
	c.done += int64(len(b))
	if c.report != nil {
		c.report(c.done, c.total)
	}
	return len(b), nil
}

// open opens a file or an address, and says how long it is, or -1. What is trusted as it is comes by no line on which others could change it.
func (o *FetchOptions) open(ctx context.Context, from string, trusted bool) (io.ReadCloser, int64, error) {
	scheme, _, ok := strings.Cut(from, "://")
	if !ok {
		f, size, err := openFile(from)
		if err != nil {
			return nil, 0, err
		}
		return f, size, nil
	}
	if scheme = strings.ToLower(scheme); scheme != "http" && scheme != "https" {
		return nil, 0, fmt.Errorf("image: %s is neither a file nor an address of http or https", shown(from))
	}
	r, n, err := o.get(ctx, from, trusted)
	if err != nil {
		return nil, 0, fmt.Errorf("image: %w", err)
	}
	return r, n, nil
}

// openFile opens a file that somebody has named, and says how long it is. Anything but a regular file is refused before it is opened: a FIFO waits for
// its writer.
func openFile(name string) (*os.File, int64, error) {
	st, err := os.Stat(name)
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", name)
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(name)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("image: %w", err)
	}
	return f, st.Size(), nil
}

// get asks a server, which may send us elsewhere.
func (o *FetchOptions) get(ctx context.Context, from string, trusted bool) (io.ReadCloser, int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	b := &body{ctx: ctx, cancel: cancel, patience: o.patience}
	b.timer = time.AfterFunc(o.patience, func() { cancel(fmt.Errorf("%s sent nothing for %s", shown(from), o.patience)) })
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err == nil && trusted {
		err = private(r.URL)
	}
	if err == nil {
		r.Header.Set("Accept-Encoding", "identity")
		client := http.Client{CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if trusted {
				return errors.Join(private(r.URL), tooMany(via))
			}
			return tooMany(via)
		}}
		var answer *http.Response
		if answer, err = client.Do(r); err == nil {
			b.r = answer.Body
			if answer.StatusCode == http.StatusOK {
				return b, answer.ContentLength, nil
			}
			err = fmt.Errorf("%s: the server says %s", shown(from), answer.Status)
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return nil, 0, errors.Join(err, b.Close())
}

func tooMany(via []*http.Request) error {
	if len(via) >= 10 {
		return errors.New("the server sends us from one address to the next")
	}
	return nil
}

// private returns an error for an address whose answer others could change on its way.
func private(u *url.URL) error {
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "https" || u.Hostname() == "localhost" || ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%s: what comes by http, others can have changed on its way: take the checksums by https, or from a file", shown(u.String()))
}

// body is an answer, which breaks off if nothing comes any more.
type body struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	patience time.Duration
	timer    *time.Timer
	r        io.ReadCloser // nil if there is none
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if cause := context.Cause(b.ctx); cause != nil {
		return n, cause
	}
	b.timer.Reset(b.patience)
	return n, err
}

func (b *body) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	if b.r == nil {
		return nil
	}
	return b.r.Close()
}

// baseName is the name of a file, or that at the end of an address.
func baseName(from string) string {
	if !strings.Contains(from, "://") {
		return filepath.Base(from)
	}
	u, err := url.Parse(from)
	if err != nil {
		return path.Base(from)
	}
	return path.Base(u.Path)
}

// shown is an address without its password.
func shown(from string) string {
	if u, err := url.Parse(from); err == nil && u.User != nil {
		return u.Redacted()
	}
	return from
}
