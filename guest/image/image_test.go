//go:build linux

package image

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/u-root/u-root/pkg/cpio"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// needApt ends the test where packages cannot be had.
func needApt(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("short: downloads a kernel")
	}
	require.Program(t, "apt-get", "apt")
}

// testImage returns a copy of the real image, which tests/run.sh has built, or
// builds one.
func testImage(t *testing.T) (dir string, i Image) {
	t.Helper()
	dir = t.TempDir()
	var err error
	if built := os.Getenv("GUEST_TEST_IMAGE"); built != "" {
		if err = os.CopyFS(dir, os.DirFS(built)); err == nil {
			i, err = Open(dir, "amd64")
		}
	} else {
		needApt(t)
		i, err = Build(t.Context(), Options{Dir: dir, Arch: "amd64"})
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, i
}

// TestBuilt looks into the real image, opens it, damages it.
func TestBuilt(t *testing.T) {
	dir, first := testImage(t)
	m := first.Manifest
	if m.Boot != "pvh" || !bytes.HasPrefix(read(t, filepath.Join(first.Dir, kernelFile)), []byte("\x7fELF")) {
		t.Errorf("the kernel boots by %q, expected an ELF that boots by pvh", m.Boot)
	}
	for _, n := range slices.Concat(lists[0].needed, lists[1].needed) {
		if !slices.Contains(m.Modules, n) {
			t.Errorf("module %s is missing in %v", n, m.Modules)
		}
	}
	for i, n := range m.Modules { // virtio_pci needs virtio_ring needs virtio
		if n == "virtiofs" && !slices.Contains(m.Modules[:i], "fuse") {
			t.Errorf("virtiofs comes before fuse: %v", m.Modules)
		}
	}
	if m.Applets < 200 || !strings.HasPrefix(m.Kernel, "6.") {
		t.Errorf("%d applets, kernel %s", m.Applets, m.Kernel)
	}

	guest := []byte("\x7fELF a guest")
	source := Source{Dir: dir, Arch: "amd64", Guest: guest}
	files := mustOpen(t, source)
	base := read(t, filepath.Join(first.Dir, baseFile))
	whole, err := io.ReadAll(files.Initrd)
	if err != nil || !bytes.HasPrefix(whole, base) {
		t.Fatalf("the initramfs does not begin with the image's: %v", err)
	}
	names := contents(t, base)
	maps.Copy(names, contents(t, whole[len(base):]))
	for _, want := range []string{"bin/busybox", "bin/sh", "init", "lib/modules/list", "lib/modules/virtiofs.ko"} {
		if _, ok := names[want]; !ok {
			t.Errorf("%s is not in the initramfs", want)
		}
	}
	for name, content := range names {
		if strings.HasSuffix(name, ".ko") && !light(t, content) {
			t.Errorf("%s has a signature or type descriptions", name)
		}
	}
	if string(names["init"]) != string(guest) {
		t.Error("init is not the guest's program")
	}
	if files.Version != m.Kernel || files.RootFS != nil {
		t.Errorf("opened kernel %q, root %v", files.Version, files.RootFS)
	}
	native := appletsOf(t, names["bin/busybox"])
	found, err := appletNames(names["bin/busybox"])
	if err != nil || !slices.Equal(native, found) {
		t.Errorf("applets found in the program: %v\nit says: %v (%v)", found, native, err)
	}

	if err := first.Verify(); err != nil {
		t.Errorf("the image that was built: %v", err)
	}
	kernel := read(t, filepath.Join(first.Dir, kernelFile))
	kernel[len(kernel)/2] ^= 1
	if err := os.WriteFile(filepath.Join(first.Dir, kernelFile), kernel, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := first.Verify(); !errors.Is(err, ErrNone) {
		t.Errorf("a damaged kernel, verified: %v", err)
	}
	if _, err := source.Open(); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "sandbox guest build") {
		t.Errorf("a damaged kernel, opened: %v", err)
	}
}

// light reports whether a module has nothing that only costs time.
func light(t *testing.T, module []byte) bool {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		t.Fatal(err)
	}
	btf := f.Section(".BTF")
	return !bytes.HasSuffix(module, []byte("appended~\n")) && (btf == nil || btf.Size == 0)
}

func TestUnsigned(t *testing.T) {
	// Algorithm, hash, kind, bytes of the signer and of the key, 3 unused, bytes of the signature.
	info := "\x00\x00\x02\x01\x02\x00\x00\x00\x00\x00\x00\x03"
	const magic = "~Module signature appended~\n"
	for in, want := range map[string]string{
		"module" + "1" + "22" + "333" + info + magic: "module",
		"12233" + info + magic:                       "12233" + info + magic, // longer than all
		info[1:] + magic:                             info[1:] + magic,
		magic:                                        magic,
		"module":                                     "module",
		"":                                           "",
	} {
		if got := string(unsigned([]byte(in))); got != want {
			t.Errorf("%q: %q, expected %q", in, got, want)
		}
	}
}

func mustOpen(t *testing.T, s Source) Files {
	t.Helper()
	f, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// TestOwnFiles: what the user names is taken instead, and needs no image.
func TestOwnFiles(t *testing.T) {
	dir := t.TempDir()
	own := func(name, content string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	s := Source{Dir: dir, Arch: "amd64", Guest: []byte("guest"), KernelPath: own("k", "kernel"), InitrdPath: own("i", "odd"), RootFSPath: own("r", "disk")}
	s.Guest = nil
	f := mustOpen(t, s)
	if initrd, err := io.ReadAll(f.Initrd); err != nil || string(initrd) != "odd" {
		t.Errorf("the initramfs is %q, %v", initrd, err)
	}
	if again, err := io.ReadAll(io.NewSectionReader(f.Kernel, 0, 100)); err != nil || string(again) != "kernel" {
		t.Errorf("the kernel is %q, %v", again, err)
	}
	if got, err := io.ReadAll(f.RootFS); err != nil || string(got) != "disk" {
		t.Errorf("the root file system is %q, %v", got, err)
	}
	if _, err := f.RootFS.WriteAt([]byte("D"), 0); err == nil {
		t.Error("the root file system can be written")
	}
	for what, change := range map[string]func(*Source){
		"--kernel-path": func(s *Source) { s.KernelPath = dir }, "--initrd-path": func(s *Source) { s.InitrdPath = dir + "/none" },
		"--rootfs-path": func(s *Source) { s.RootFSPath = dir + "/none" }, "make build": func(s *Source) { s.InitrdPath = "" },
		"sandbox guest build": func(s *Source) { s.Guest, s.KernelPath = []byte("guest"), "" },
	} {
		bad := s
		change(&bad)
		if f, err := bad.Open(); err == nil || !strings.Contains(err.Error(), what) || f.Kernel != nil {
			t.Errorf("%s: %v, %v", what, f, err)
		}
	}
}

// contents lists an archive.
func contents(t *testing.T, b []byte) map[string][]byte {
	t.Helper()
	names := map[string][]byte{}
	rs, err := cpio.ReadAllRecords(cpio.Newc.Reader(bytes.NewReader(b)))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rs {
		content := make([]byte, r.FileSize)
		if r.FileSize > 0 {
			if _, err := r.ReadAt(content, 0); err != nil {
				t.Fatal(err)
			}
		}
		names[r.Name] = content
	}
	return names
}

func appletsOf(t *testing.T, busybox []byte) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "busybox")
	if err := os.WriteFile(file, busybox, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(file, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	return sortedApplets(string(out))
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBadRequests(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "junk.deb")
	if err := os.WriteFile(junk, []byte("junk"), 0o644); err != nil {
		t.Fatal(err)
	}
	for what, o := range map[string]Options{
		"no such architecture": {Arch: "mips"},
		"a package of junk":    {Arch: "amd64", KernelPackage: junk},
		"no such package":      {Arch: "amd64", KernelPackage: junk + ".none"},
	} {
		o.Dir = t.TempDir()
		if _, err := Build(t.Context(), o); err == nil {
			t.Errorf("%s: no error", what)
		}
		left, _ := os.ReadDir(o.Dir)
		if len(left) != 0 {
			t.Errorf("%s: %s is left", what, left[0].Name())
		}
	}
	dir := t.TempDir()
	if _, err := Open(dir, "amd64"); !errors.Is(err, ErrNone) {
		t.Errorf("no image: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "amd64"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"junk", `{"format":1,"arch":"amd64"}`, `{"format":2,"arch":"arm64"}`} {
		if err := os.WriteFile(filepath.Join(dir, "amd64", manifestFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, "amd64"); !errors.Is(err, ErrNone) {
			t.Errorf("manifest %s: %v", text, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Build(ctx, Options{Dir: t.TempDir(), Arch: "amd64"}); err == nil {
		t.Error("cancelled, and no error")
	}
}

func TestLoadOrder(t *testing.T) {
	all := map[string]*module{}
	add := func(name string, deps ...string) { all[name] = &module{name: name, depends: deps} }
	add("virtio_pci", "virtio_ring", "virtio")
	add("virtio_ring", "virtio")
	add("virtio")
	add("virtio_console", "virtio")
	add("virtio_net", "virtio", "failover")
	add("failover")
	add("virtio_blk", "failover")
	add("9p")
	add("virtiofs", "fuse", "?gone")
	add("ext4", "jbd2", "?crc32c") // an algorithm, which two modules have
	all["crc32c_intel"] = &module{name: "crc32c_intel", aliases: []string{"crc32c"}}
	all["crc32c_generic"] = &module{name: "crc32c_generic", aliases: []string{"crc32c", "crypto_crc32c"}}
	add("jbd2", "?ext4")
	add("nfs", "sunrpc", "virtio")
	add("sunrpc")
	order, err := loadOrder(listsWith([]string{"nfs", "fuse"}), all, parseBuiltin([]byte("kernel/fs/fuse/fuse.ko\n")))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"virtio virtio_ring virtio_pci virtio_console virtiofs", "failover virtio_net", "9p", "failover virtio_blk jbd2 crc32c_generic crc32c_intel ext4", "sunrpc nfs"} {
		var names []string
		for _, m := range order[i].modules {
			names = append(names, m.name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, expected %s", order[i].file, got, want)
		}
	}
	if file := order[len(lists)].file; file != OthersFile {
		t.Errorf("the others are in %s", file)
	}
	if n := len(order.all()); n != 15 {
		t.Errorf("%d modules, expected each once", n)
	}
	if order, err = loadOrder(listsWith(nil), all, parseBuiltin([]byte("kernel/fs/fuse/fuse.ko\n"))); err != nil || len(order) != len(lists) {
		t.Errorf("without others: %d lists, %v", len(order), err)
	}
	if _, err := loadOrder(listsWith([]string{"gone"}), all, parseBuiltin(nil)); !errors.Is(err, ErrPackage) {
		t.Errorf("another module is missing: %v", err)
	}
	delete(all, "virtio_ring")
	if _, err := loadOrder(lists, all, parseBuiltin(nil)); !errors.Is(err, ErrPackage) {
		t.Errorf("a module is missing: %v", err)
	}
	add("virtio_ring", "virtio_pci")
	if _, err := loadOrder(lists, all, parseBuiltin(nil)); !errors.Is(err, ErrPackage) {
		t.Errorf("a circle: %v", err)
	}
}

// tarOf is an archive of one file.
func tarOf(name string, content []byte) []byte {
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	_ = w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644, Typeflag: tar.TypeReg})
	_, _ = w.Write(content)
	_ = w.Close()
	return data.Bytes()
}

// deb makes a package of one file, which says nothing of itself.
func deb(name string, content []byte) []byte { return debSaying(name, content, "") }

// debSaying is deb with the text of a control file.
func debSaying(name string, content []byte, control string) []byte {
	members := []struct {
		name    string
		content []byte
	}{{"debian-binary", []byte("2.0\n")}}
	if control != "" {
		members = append(members, struct {
			name    string
			content []byte
		}{"control.tar", tarOf("./control", []byte(control))})
	}
	members = append(members, struct {
		name    string
		content []byte
	}{"data.tar", tarOf(name, content)})
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	for _, m := range members {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", m.name, 0, 0, 0, 0o644, len(m.content))
		out.Write(m.content)
		if len(m.content)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

// TestBuiltFrom: what a package is built of is its own source and what others' it has in it.
func TestBuiltFrom(t *testing.T) {
	for control, want := range map[string]string{
		"": "",
		"Package: a\nVersion: 1:2-3\nDescription: short\n Source: (not)\n": "a=1:2-3",
		"Package: a\nSource: b\nVersion: 2-3+b1\n":                         "b=2-3+b1",
		"Package: busybox-static\nSource: busybox (1:1.35.0-4)\nVersion: 1:1.35.0-4+b1\nBuilt-Using: glibc (= 2.36-9),\n libxcrypt (= 1:4.4)\nStatic-Built-Using: c (= 1)\n": "busybox=1:1.35.0-4 glibc=2.36-9 libxcrypt=1:4.4 c=1",
	} {
		got, err := builtFrom(bytes.NewReader(debSaying("f", nil, control)))
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, %v, expected %q", control, got, err, want)
		}
	}
}

func TestHostileNames(t *testing.T) {
	for _, name := range []string{"../bin/busybox", "/etc/passwd", "a/../../b"} {
		err := readPackage(bytes.NewReader(deb(name, []byte("x"))), func(string) bool { return true }, func(n string, _ []byte) error {
			if !fs.ValidPath(n) {
				return fmt.Errorf("took %q", n)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func FuzzPackageFile(f *testing.F) {
	f.Add(deb("./bin/busybox", []byte("busy")))
	f.Add([]byte("!<arch>\ndata.tar.xz     0           0     0     100644  12        `\n\xfd7zXZ\x00\x00\x00\x00\x00\x00\x00"))
	f.Add(debSaying("f", nil, "Package: a\nVersion: 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = builtFrom(bytes.NewReader(b))
		_ = readPackage(bytes.NewReader(b), func(string) bool { return true }, func(n string, _ []byte) error {
			if !fs.ValidPath(n) {
				t.Errorf("name %q", n)
			}
			return nil
		})
	})
}

func FuzzKernelImage(f *testing.F) {
	bz := make([]byte, 0x400)
	copy(bz[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(bz[0x206:], 0x20f)
	f.Add(bz)
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		if len(b) < 1<<20 {
			_, _ = vmlinux(b)
			_, _ = parseModule("m", b)
			_, _ = appletNames(b)
		}
	})
}
