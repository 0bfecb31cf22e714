package guestimage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/guest/image"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// The variables by which tests/run.sh says what it has built.
const (
	ImageEnv = "GUEST_TEST_IMAGE"  // a directory of images
	RootEnv  = "GUEST_TEST_DEBIAN" // one in which there is a Debian, too
	GuestEnv = "JAIL_TEST_GUEST"   // the guest's program
)

// buildPatience is longer than a download and a build take.
const buildPatience = 10 * time.Minute

// Dir returns the directory of images; one for amd64 is there. It ends the test
// where none can be had.
func Dir(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(ImageEnv); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "sandbox-tests")
	if _, err = image.Open(dir, "amd64"); errors.Is(err, image.ErrNone) {
		ctx, cancel := context.WithTimeout(t.Context(), buildPatience)
		defer cancel()
		_, err = image.Build(ctx, image.Options{Dir: dir, Arch: "amd64"})
	}
	if err != nil {
		require.Missing(t, "a kernel for guests ("+err.Error()+")", "Debian, and its mirror")
	}
	return dir
}

// Cache returns a directory that can be a user's XDG_CACHE_HOME: in it is the
// image with the general kernel, which speaks 9P. It ends the test where none
// can be had.
func Cache(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	cache = filepath.Join(cache, "sandbox-tests-generic")
	dir := filepath.Join(cache, "sandbox", "guest")
	built, err := image.Open(dir, "amd64")
	if err != nil || !slices.Contains(built.Manifest.Modules, "crc32c_generic") { // of an older version, which forgot what ext4 needs
		ctx, cancel := context.WithTimeout(t.Context(), buildPatience)
		defer cancel()
		_, err = image.Build(ctx, image.Options{Dir: dir, Arch: "amd64", Generic: true})
	}
	if err != nil {
		require.Missing(t, "a kernel for guests that speaks 9P ("+err.Error()+")", "Debian, and its mirror")
	}
	return cache
}

// WithModules opens the general kernel, and an initramfs with init and these modules of the kernel, which are listed in
// image.OthersFile. The image is kept in the user's cache by the name. It ends the test where none can be had.
func WithModules(t testing.TB, name string, init []byte, modules ...string) image.Files {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, name)
	built, err := image.Open(dir, "amd64")
	if err != nil || slices.ContainsFunc(modules, func(m string) bool { return !slices.Contains(built.Manifest.Modules, m) }) {
		ctx, cancel := context.WithTimeout(t.Context(), buildPatience)
		defer cancel()
		_, err = image.Build(ctx, image.Options{Dir: dir, Arch: "amd64", Generic: true, Modules: modules})
	}
	if err != nil {
		require.Missing(t, "a kernel for guests with the modules "+strings.Join(modules, " ")+" ("+err.Error()+")", "Debian, and its mirror")
	}
	f, err := image.Source{Dir: dir, Arch: "amd64", Guest: init}.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// Debian returns a directory of images in which there is a Debian with gcc, git,
// make and python3. It ends the test where none can be had.
func Debian(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(RootEnv); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "sandbox-tests-debian")
	ctx, cancel := context.WithTimeout(t.Context(), buildPatience)
	defer cancel()
	if _, err = image.Open(dir, "amd64"); errors.Is(err, image.ErrNone) {
		_, err = image.Build(ctx, image.Options{Dir: dir, Arch: "amd64"})
	}
	if err == nil {
		if _, err = image.OpenRootFS(dir, "amd64"); errors.Is(err, image.ErrNone) {
			_, err = image.BuildRootFS(ctx, image.RootFSOptions{
				Dir: dir, Arch: "amd64", Minimal: true, Include: []string{"gcc", "libc6-dev", "git", "make", "python3-minimal"},
			})
		}
	}
	if err != nil {
		require.Missing(t, "a Debian for guests ("+err.Error()+")", "apt-get install mmdebstrap squashfs-tools, and Debian's mirror")
	}
	return dir
}

// Files opens the kernel, and an initramfs with the program as init.
func Files(t testing.TB, program []byte) image.Files {
	t.Helper()
	f, err := image.Source{Dir: Dir(t), Arch: "amd64", Guest: program}.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // a runtime has closed them before
	return f
}

// Program returns the guest's program.
func Program(t testing.TB) []byte {
	t.Helper()
	file := os.Getenv(GuestEnv)
	if file == "" {
		file = filepath.Join(t.TempDir(), "sandbox-guest")
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", file, "github.com/codeagent/sandbox/cmd/sandbox-guest")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v: %s", err, text)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Archive makes the archive of an image that no machine boots, built from these source packages.
func Archive(t testing.TB, arch string, builtFrom ...string) []byte {
	t.Helper()
	i := image.Image{Dir: t.TempDir(), Manifest: image.Manifest{Arch: arch, BuiltFrom: builtFrom, Files: map[string]image.Sum{}}}
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(i.Dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"kernel", "base.cpio"} {
		sum := sha256.Sum256([]byte(name))
		i.Manifest.Files[name] = image.Sum{Bytes: int64(len(name)), SHA256: hex.EncodeToString(sum[:]), CRC32C: crc32.Checksum([]byte(name), crc32.MakeTable(crc32.Castagnoli))}
		write(name, []byte(name))
	}
	text, err := json.Marshal(i.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	write("manifest.json", text)
	var out bytes.Buffer
	if err := i.Pack(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
