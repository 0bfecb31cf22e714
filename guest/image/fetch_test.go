package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// smallImage makes an image in dir that nothing can boot.
func smallImage(t testing.TB, dir, arch, kernel string) Image {
	t.Helper()
	i := Image{Dir: filepath.Join(dir, arch), Manifest: Manifest{Format: format, Arch: arch, Kernel: "6.1.0-1-" + arch, Boot: "image", Files: map[string]Sum{}}}
	if err := os.MkdirAll(i.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	put := func(name string, content []byte) {
		i.Manifest.Files[name] = sumOf(content)
		if err := os.WriteFile(filepath.Join(i.Dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(kernelFile, []byte(kernel))
	put(baseFile, []byte("a base"))
	files := i.Manifest.Files
	put(manifestFile, text(t, i.Manifest))
	delete(files, manifestFile)
	return i
}

func sumOf(content []byte) Sum {
	return Sum{Bytes: int64(len(content)), SHA256: sum(content), CRC32C: crc32.Checksum(content, castagnoli())}
}

func text(t testing.TB, m Manifest) []byte {
	t.Helper()
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func packed(t testing.TB, i Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := i.Pack(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// entry is one of an archive that no Pack has made.
type entry struct {
	name    string
	content []byte
	change  func(*tar.Header)
}

func squeezed(t testing.TB, plain []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	return z.EncodeAll(plain, nil)
}

func archiveOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := tar.Header{Typeflag: tar.TypeReg, Name: e.name, Size: int64(len(e.content)), Mode: 0o644}
		if e.change != nil {
			e.change(&h)
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write(e.content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return squeezed(t, b.Bytes())
}

// web serves files, and counts as this machine.
func web(t *testing.T, files map[string]http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	for name, f := range files {
		mux.HandleFunc("/"+name, f)
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL + "/"
}

func serves(content []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }
}

// TestFetch: an image that was packed is there again, from an address and from a file, by either kind of checksum.
func TestFetch(t *testing.T) {
	first := smallImage(t, t.TempDir(), "amd64", strings.Repeat("kernel ", 1<<16))
	archive := packed(t, first)
	if !bytes.Equal(archive, packed(t, first)) {
		t.Error("packed twice, the image gave other bytes")
	}
	const name = "sandbox_1.2.3_guest_amd64.tar.zst"
	sums := fmt.Sprintf("%x  another\r\n%s *%s\r\n", make([]byte, 32), sum(archive), name)
	at := web(t, map[string]http.HandlerFunc{
		name: serves(archive), "checksums.txt": serves([]byte(sums)),
		"moved/" + name: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/"+name, http.StatusFound) },
	})
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "images")
	for what, o := range map[string]FetchOptions{
		"by addresses":          {From: at + name, Sums: at + "checksums.txt"},
		"by one that moved":     {From: at + "moved/" + name + "?a=b", Sums: at + "checksums.txt"},
		"by the checksum alone": {From: at + name, SHA256: strings.ToUpper(sum(archive))},
		"from a file":           {From: file, SHA256: sum(archive)},
		"with a list":           {From: file, Sums: at + "checksums.txt"},
	} {
		last := int64(0)
		o.Dir, o.Arch, o.Report = dir, "amd64", func(done, _ int64) { last = done }
		i, err := Fetch(t.Context(), o)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if last != int64(len(archive)) {
			t.Errorf("%s: of %d bytes %d were told", what, len(archive), last)
		}
		if i, err = Open(dir, "amd64"); err == nil {
			err = i.Verify()
		}
		if err != nil || i.Manifest.Kernel != first.Manifest.Kernel {
			t.Errorf("%s: %+v, %v", what, i.Manifest, err)
		}
		if left, _ := os.ReadDir(dir); len(left) != 1 {
			t.Errorf("%s: %v is left", what, left)
		}
		smallImage(t, dir, "amd64", "the one before")
	}
}

// refused is what Fetch must not install, with a word of what it says.
type refused struct {
	archive []byte // from a file, with its right checksum
	o       FetchOptions
	says    string
}

// refuses tries it: the image that is there stays, and nothing is left beside it.
func refuses(t *testing.T, what string, r refused) {
	t.Helper()
	dir := t.TempDir()
	before := smallImage(t, dir, "amd64", "the one before")
	if r.o.Dir, r.o.Arch = dir, "amd64"; r.archive != nil {
		r.o.From, r.o.SHA256 = filepath.Join(t.TempDir(), "archive"), sum(r.archive)
		if err := os.WriteFile(r.o.From, r.archive, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Fetch(t.Context(), r.o)
	if err == nil || !strings.Contains(err.Error(), r.says) {
		t.Errorf("%s: %v, expected %q", what, err, r.says)
	}
	if r.archive != nil && !errors.Is(err, ErrArchive) {
		t.Errorf("%s: %v is no ErrArchive", what, err)
	}
	if err := before.Verify(); err != nil {
		t.Errorf("%s: the image that was there: %v", what, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%s: %v is left", what, left)
	}
}

// TestFetchHostile: an archive whose checksum is right can be one that somebody made up.
func TestFetchHostile(t *testing.T) {
	kernel, base := []byte("kernel"), []byte("base")
	right := func() Manifest {
		return Manifest{Format: format, Arch: "amd64", Kernel: "6.1.0-1-amd64", Boot: "pvh", Files: map[string]Sum{kernelFile: sumOf(kernel), baseFile: sumOf(base)}}
	}
	// with is an archive with one thing that is not as it should be.
	with := func(change func(m *Manifest, e []entry) []entry) []byte {
		m := right()
		e := []entry{{name: manifestFile}, {name: kernelFile, content: kernel}, {name: baseFile, content: base}}
		e = change(&m, e)
		if e[0].content == nil {
			e[0].content = text(t, m)
		}
		return archiveOf(t, e...)
	}
	link := func(kind byte, to string) []byte {
		return with(func(_ *Manifest, e []entry) []entry {
			e[1].change = func(h *tar.Header) { h.Typeflag, h.Linkname, h.Size = kind, to, 0 }
			return e
		})
	}
	named := func(name string) []byte {
		return with(func(_ *Manifest, e []entry) []entry { e[1].name = name; return e })
	}
	manifest := func(change func(*Manifest)) []byte {
		return with(func(m *Manifest, e []entry) []entry { change(m); return e })
	}
	sized := func(n int64) []byte {
		return manifest(func(m *Manifest) { m.Files[kernelFile] = Sum{Bytes: n} })
	}
	whole := with(func(_ *Manifest, e []entry) []entry { return e })
	for what, r := range map[string]refused{
		"a symlink":            {link(tar.TypeSymlink, "/etc/passwd"), FetchOptions{}, `it has "kernel" where the file kernel should be`},
		"a hard link":          {link(tar.TypeLink, "manifest.json"), FetchOptions{}, `it has "kernel" where`},
		"a device":             {link(tar.TypeChar, ""), FetchOptions{}, `it has "kernel" where`},
		"a way out":            {named("../kernel"), FetchOptions{}, `it has "../kernel" where`},
		"an absolute path":     {named("/kernel"), FetchOptions{}, `it has "/kernel" where`},
		"a path of Windows":    {named(`..\kernel`), FetchOptions{}, `it has "..\\kernel" where`},
		"another architecture": {manifest(func(m *Manifest) { m.Arch = "arm64" }), FetchOptions{}, `it is for "arm64", not for amd64: take the file for amd64`},
		"another version":      {manifest(func(m *Manifest) { m.Format++ }), FetchOptions{}, fmt.Sprintf("takes %d", format)},
		"a kernel's name":      {manifest(func(m *Manifest) { m.Kernel = "\x1b[2J" }), FetchOptions{}, `its kernel is "\x1b[2J"`},
		"a third file":         {manifest(func(m *Manifest) { m.Files["x"] = Sum{Bytes: 1} }), FetchOptions{}, "it names 3 files"},
		"no manifest":          {with(func(_ *Manifest, e []entry) []entry { e[0].content = []byte("junk"); return e }), FetchOptions{}, "invalid character"},
		"a long manifest":      {with(func(_ *Manifest, e []entry) []entry { e[0].content = make([]byte, maxManifest+1); return e }), FetchOptions{}, "larger than"},
		"too large a file":     {sized(maxMember + 1), FetchOptions{}, "a file of an image has up to"},
		"less than nothing":    {sized(-1), FetchOptions{}, "kernel has -1 bytes"},
		"another kernel":       {sized(int64(len(kernel))), FetchOptions{}, "it is not what the manifest says"},
		"a longer kernel":      {sized(1), FetchOptions{}, "it is not what the manifest says"},
		"one file more":        {with(func(_ *Manifest, e []entry) []entry { return append(e, entry{name: "more"}) }), FetchOptions{}, `it has "more" too`},
		"one file less":        {with(func(_ *Manifest, e []entry) []entry { return e[:2] }), FetchOptions{}, "it ends before base.cpio"},
		"no tar":               {squeezed(t, []byte(strings.Repeat("junk", 1000))), FetchOptions{}, "invalid tar header"},
		"no zstd":              {[]byte("junk"), FetchOptions{}, "not a usable archive"},
		"half of one":          {whole[:len(whole)/2], FetchOptions{}, "not a usable archive"},
		"nothing":              {[]byte{}, FetchOptions{}, "it ends before manifest.json"},
	} {
		refuses(t, what, r)
	}
	if i, err := unpack(bytes.NewReader(whole), "amd64", t.TempDir()); err != nil || i.Kernel != right().Kernel {
		t.Errorf("with nothing wrong: %+v, %v", i, err)
	}
}

// TestFetchRefused: what comes over a network breaks off, is another file, or is on its way through the hands of others.
func TestFetchRefused(t *testing.T) {
	archive := packed(t, smallImage(t, t.TempDir(), "amd64", "kernel"))
	ended := t.Context().Done()
	at := web(t, map[string]http.HandlerFunc{
		"whole": serves(archive),
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(archive)))
			_, _ = w.Write(archive[:len(archive)/2])
		},
		"cut-chunk": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(archive[:len(archive)/2])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"huge": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(maxArchive+1))
		},
		"still": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(archive[:1])
			_ = http.NewResponseController(w).Flush()
			select {
			case <-ended:
			case <-r.Context().Done():
			}
		},
		"round": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) },
		"away": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/whole", http.StatusFound)
		},
		"none":   serves([]byte(sum(archive) + "  another\n")),
		"two":    serves([]byte(sum(archive) + "  whole\n" + strings.Repeat("0", 64) + "  whole\n")),
		"long":   serves(make([]byte, maxSums+1)),
		"broken": serves([]byte("no list")),
	})
	right := sum(archive)
	for what, r := range map[string]refused{
		"another file":        {nil, FetchOptions{From: at + "whole", SHA256: strings.Repeat("0", 64)}, "its SHA-256 is " + right},
		"no checksum":         {nil, FetchOptions{From: at + "whole"}, "nothing is installed without one"},
		"no SHA-256":          {nil, FetchOptions{From: at + "whole", SHA256: right[1:]}, "64 hexadecimal digits"},
		"cut off":             {nil, FetchOptions{From: at + "cut", SHA256: right}, "it broke off after"},
		"cut off in a chunk":  {nil, FetchOptions{From: at + "cut-chunk", SHA256: right}, "it broke off after"},
		"a huge file":         {nil, FetchOptions{From: at + "huge", SHA256: right}, "none has more than"},
		"a standstill":        {nil, FetchOptions{From: at + "still", SHA256: right, patience: 200 * time.Millisecond}, "sent nothing for 200ms"},
		"not found":           {nil, FetchOptions{From: at + "gone", SHA256: right}, "404 Not Found"},
		"round in circles":    {nil, FetchOptions{From: at + "round", SHA256: right}, "from one address to the next"},
		"another scheme":      {nil, FetchOptions{From: "ftp://example.org/x", SHA256: right}, "neither a file nor an address"},
		"no file":             {nil, FetchOptions{From: filepath.Join(t.TempDir(), "none"), SHA256: right}, "none"},
		"a directory":         {nil, FetchOptions{From: t.TempDir(), SHA256: right}, "is no file"},
		"a list without it":   {nil, FetchOptions{From: at + "whole", Sums: at + "none"}, "it has no line for whole"},
		"a list with two":     {nil, FetchOptions{From: at + "whole", Sums: at + "two"}, "two checksums of whole"},
		"a long list":         {nil, FetchOptions{From: at + "whole", Sums: at + "long"}, "larger than"},
		"no list":             {nil, FetchOptions{From: at + "whole", Sums: at + "broken"}, "it has no line for whole"},
		"a list by http":      {nil, FetchOptions{From: at + "whole", Sums: "http://192.0.2.1/list"}, "take the checksums by https"},
		"a list sent to http": {nil, FetchOptions{From: at + "whole", Sums: at + "away"}, "take the checksums by https"},
		"a password":          {nil, FetchOptions{From: "http://me:secret@192.0.2.1/x", Sums: "http://me:secret@192.0.2.1/list"}, "me:xxxxx@"},
	} {
		refuses(t, what, r)
	}
}

// FuzzArchive: whatever an archive is, it leaves nothing outside of its directory, and what it installs is what its manifest says.
func FuzzArchive(f *testing.F) {
	whole := packed(f, smallImage(f, f.TempDir(), "amd64", "kernel"))
	z, err := zstd.NewReader(nil)
	if err != nil {
		f.Fatal(err)
	}
	plain, err := z.DecodeAll(whole, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plain)
	f.Add(bytes.ReplaceAll(plain, []byte("kernel\x00"), []byte("../../k")))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = unpack(bytes.NewReader(b), "amd64", t.TempDir())
		dir := t.TempDir()
		out := filepath.Join(dir, "amd64")
		if err := os.Mkdir(out, 0o755); err != nil {
			t.Fatal(err)
		}
		if m, err := unpack(bytes.NewReader(squeezed(t, b)), "amd64", out); err == nil {
			if err := (Image{Dir: out, Manifest: m}).Verify(); err != nil {
				t.Error(err)
			}
		}
		if left, _ := os.ReadDir(dir); len(left) != 1 {
			t.Errorf("%v", left)
		}
		if left, _ := os.ReadDir(out); len(left) > 3 {
			t.Errorf("%v", left)
		}
		_, _ = findSum(b, "kernel")
	})
}
