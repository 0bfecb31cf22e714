package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/guest/image"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/guestimage"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// release is a directory as GoReleaser leaves it, with what distfiles makes of it.
type release struct {
	dist     string
	archive  string // the name of the archive for this processor
	unpacked string // what is in that
	sums     map[string]string
}

const version = "1.2.3"

// newRelease makes a release of the tested program: an archive for each processor, the image,
// the formula and the flake. The archives hold what .goreleaser.yaml says.
func newRelease(t *testing.T) release {
	t.Helper()
	dir := stage(t)
	r := release{dist: filepath.Join(dir, "dist"), unpacked: filepath.Join(dir, "unpacked"), sums: map[string]string{}}
	program, err := os.ReadFile(drive.Program(t, "sandbox"))
	if err == nil {
		err = os.Mkdir(r.dist, 0o755)
	}
	if err == nil {
		err = os.Mkdir(r.unpacked, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(r.unpacked, "sandbox"), program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range archived(t) {
		files, err := filepath.Glob(filepath.Join(dir, pair[0]))
		if err != nil || len(files) == 0 {
			t.Fatalf(".goreleaser.yaml: no file is %s, %v", pair[0], err)
		}
		for _, file := range files {
			target := filepath.Join(r.unpacked, pair[1])
			if pair[1] == "" || strings.HasSuffix(pair[0], "*") { // it is a directory
				target = filepath.Join(target, filepath.Base(file))
			}
			text, err := os.ReadFile(file)
			if err == nil {
				err = os.MkdirAll(filepath.Dir(target), 0o755)
			}
			if err == nil {
				err = os.WriteFile(target, text, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	var sums strings.Builder
	var made []map[string]string
	for _, arch := range []string{"amd64", "arm64"} {
		name := fmt.Sprintf("sandbox_%s_linux_%s.tar.gz", version, arch)
		data := packed(t, r.unpacked, strings.TrimSuffix(name, ".tar.gz"))
		sum := sha256.Sum256(data)
		r.sums[arch] = hex.EncodeToString(sum[:])
		fmt.Fprintf(&sums, "%s  %s\n", r.sums[arch], name)
		if err := os.WriteFile(filepath.Join(r.dist, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
		made = append(made, map[string]string{"type": "Binary", "goarch": arch, "path": filepath.Join(r.unpacked, "sandbox")})
	}
	r.archive = fmt.Sprintf("sandbox_%s_linux_%s.tar.gz", version, runtime.GOARCH)
	for name, v := range map[string]any{"artifacts.json": made, "metadata.json": map[string]string{"version": version, "tag": "v" + version}} {
		text, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(filepath.Join(r.dist, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(r.dist, "checksums.txt"), []byte(sums.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	tool := filepath.Join(t.TempDir(), "distfiles")
	run(t, module, nil, "go", "build", "-o", tool, "./tests/cmd/distfiles")
	images := t.TempDir() // what "make images" makes is tried in guest_fetch.txtar, and its sources in tests/cmd/distfiles
	sources := t.TempDir()
	for _, name := range []string{"linux_6.1-1.dsc", "busybox_1.35.dsc"} {
		if err := os.WriteFile(filepath.Join(sources, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run(t, sources, nil, "tar", "-cf", filepath.Join(images, "guest_sources.tar"), ".")
	for _, arch := range []string{"amd64", "arm64"} {
		if err := os.WriteFile(filepath.Join(images, "guest_"+arch+".tar.zst"), guestimage.Archive(t, arch, "linux=6.1-1", "busybox=1:1.35"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run(t, dir, []string{"DATE=2026-01-02T03:04:05Z", "COMMIT=0123abcd"}, tool, "release", r.dist, images)
	return r
}

// archived are the files of the archives in .goreleaser.yaml: which, and their names or directories there.
func archived(t *testing.T) (pairs [][2]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(module, ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "\narchives:\n")
	block, _, _ = strings.Cut(block, "\nnfpms:")
	for line := range strings.Lines(block) {
		_, source, ok := strings.Cut(line, "{src: ")
		if !ok {
			continue
		}
		source, rest, _ := strings.Cut(source, ", ")
		_, target, _ := strings.Cut(rest, "dst: ")
		target, _, _ = strings.Cut(target, ", ")
		if source = strings.Trim(source, `"`); source != "README.md" && source != "CHANGELOG.md" { // not in the stage
			pairs = append(pairs, [2]string{source, target})
		}
	}
	if len(pairs) < 5 {
		t.Fatalf(".goreleaser.yaml: archives of only %q", pairs)
	}
	return pairs
}

// packed is an archive of a directory, in which that has the name.
func packed(t *testing.T, dir, name string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err == nil {
			err = w.WriteHeader(&tar.Header{Name: filepath.Join(name, relative), Mode: 0o755, Size: int64(len(text))})
		}
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	})
	if err != nil || w.Close() != nil || z.Close() != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// installed fails the test unless the files are below the directory.
func installed(t *testing.T, prefix string, names ...string) {
	t.Helper()
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(prefix, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s was not installed: %v", name, err)
		}
	}
}

// TestRelease makes the texts and the image of a release and does with each what its users do.
func TestRelease(t *testing.T) {
	r := newRelease(t)
	if out := run(t, r.dist, nil, "sha256sum", "--check", "checksums.txt"); strings.Count(out, ": OK\n") != 8 { // two archives, the image, two texts, two images of the guest with their sources
		t.Errorf("checksums: %s", out)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		f, err := os.Open(filepath.Join(r.dist, "sandbox_"+version+"_guest_"+arch+".tar.zst"))
		if err != nil {
			t.Fatal(err)
		}
		if m, err := image.ArchiveManifest(f); err != nil || m.Arch != arch {
			t.Errorf("the image of the guest for %s: %+v, %v", arch, m, err)
		}
		f.Close()
	}
	if out := run(t, r.dist, nil, "tar", "-tf", "sandbox_"+version+"_guest_sources.tar"); !strings.Contains(out, "linux_6.1-1.dsc") {
		t.Errorf("the sources of the guest's images: %s", out)
	}
	url := "https://github.com/codeagent/sandbox/releases/download/v" + version + "/" + r.archive
	t.Run("formula", func(t *testing.T) { r.formula(t, url) })
	t.Run("flake", func(t *testing.T) { r.flake(t, url) })
	t.Run("image", r.image)
}

func (r release) formula(t *testing.T, url string) {
	ruby := require.Program(t, "ruby", "ruby")
	prefix := t.TempDir()
	// The tested program has no version, so the formula's test gets the one of its own.
	formula, err := os.ReadFile(filepath.Join(r.dist, "sandbox.rb"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sandbox.rb")
	text := strings.Replace(string(formula), "assert_match version.to_s,", `assert_match "sandbox",`, 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil || text == string(formula) {
		t.Fatalf("the formula's test has changed, %v", err)
	}
	script, err := filepath.Abs(filepath.Join("testdata", "formula.rb"))
	if err != nil {
		t.Fatal(err)
	}
	out := run(t, ".", nil, ruby, "-w", script, file, runtime.GOARCH, r.unpacked, prefix)
	if want := url + "\n" + r.sums[runtime.GOARCH] + "\n"; out != want {
		t.Errorf("the formula says %q, want %q", out, want)
	}
	installed(t, prefix, "bin/sandbox", "share/man/man1/sandbox-run.1.gz", "etc/bash_completion.d/sandbox", "share/zsh/site-functions/_sandbox",
		"share/fish/vendor_completions.d/sandbox.fish", "share/doc/sandbox/THIRD-PARTY")
}

func (r release) flake(t *testing.T, url string) {
	nix := require.Program(t, "nix-instantiate", "nix-bin")
	systems := map[string]string{"amd64": "x86_64-linux", "arm64": "aarch64-linux"}
	out := run(t, ".", []string{"NIX_STATE_DIR=" + t.TempDir(), "HOME=" + t.TempDir()}, nix, "--eval", "--strict", "--json", "--store", "dummy://", "testdata/flake.nix",
		"--arg", "flake", filepath.Join(r.dist, "flake.nix"), "--argstr", "system", systems[runtime.GOARCH])
	var made struct {
		Version, InstallPhase, MainProgram string
		Src                                struct{ URL, SHA256 string }
		Platforms                          []string
	}
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &made); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if made.Src.URL != url || made.Src.SHA256 != r.sums[runtime.GOARCH] || made.Version != version || made.MainProgram != "sandbox" {
		t.Errorf("the flake says %+v", made)
	}
	if slices.Sort(made.Platforms); !slices.Equal(made.Platforms, []string{"aarch64-linux", "x86_64-linux"}) {
		t.Errorf("the flake is for %q", made.Platforms)
	}
	// The phase runs in the unpacked archive, with the functions of nixpkgs' installShellFiles.
	prefix := t.TempDir()
	functions := `installManPage() { for f; do [ -s "$f" ] || exit 1; install -Dm644 -t "$out/share/man/man1" "$f"; done; }
installShellCompletion() {
	[ "$1 $2 $3 $5 $7 $#" = "--cmd sandbox --bash --zsh --fish 8" ] || exit 1
	install -Dm644 "$4" "$out/share/bash-completion/completions/sandbox.bash"
	install -Dm644 "$6" "$out/share/zsh/site-functions/_sandbox"
	install -Dm644 "$8" "$out/share/fish/vendor_completions.d/sandbox.fish"
}
`
	run(t, r.unpacked, []string{"out=" + prefix}, "bash", "-euc", functions+made.InstallPhase)
	installed(t, prefix, "bin/sandbox", "share/man/man1/sandbox-run.1.gz", "share/bash-completion/completions/sandbox.bash", "share/zsh/site-functions/_sandbox",
		"share/fish/vendor_completions.d/sandbox.fish", "share/doc/sandbox/THIRD-PARTY")
}

// image loads the image, and runs the program that is in it.
func (r release) image(t *testing.T) {
	require.Root(t)
	podman := require.Program(t, "podman", "podman")
	store := t.TempDir()
	do := func(args ...string) string {
		return run(t, ".", nil, podman, append([]string{"--root", filepath.Join(store, "root"), "--runroot", filepath.Join(store, "run"), "--storage-driver", "vfs"}, args...)...)
	}
	defer do("rmi", "--all", "--force")
	const name = "ghcr.io/codeagent/sandbox:" + version
	if out := do("load", "--quiet", "--input", filepath.Join(r.dist, "sandbox_"+version+"_oci.tar")); !strings.Contains(out, name) {
		t.Errorf("podman load: %s", out)
	}
	if out := do("image", "inspect", "--format", "{{.Architecture}} {{.Config.Entrypoint}} {{index .Labels \"org.opencontainers.image.revision\"}}", name); strings.TrimSpace(out) != runtime.GOARCH+" [/usr/bin/sandbox] 0123abcd" {
		t.Errorf("the image is %s", out)
	}
	root := strings.TrimSpace(do("image", "mount", name))
	if out := run(t, ".", nil, "chroot", root, "/usr/bin/sandbox", "version"); !strings.HasPrefix(out, "sandbox ") {
		t.Errorf("the image's program says %q", out)
	}
	do("image", "umount", name)
}
