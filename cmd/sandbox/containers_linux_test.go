package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// LS-28: podman pulls an image through the allow-listed network, runs it on the folder and
// builds on it; what its containers have done to the folder is undone.
func TestLS28Podman(t *testing.T) {
	for _, name := range []string{"podman", "crun", "buildah"} {
		require.Program(t, name, name)
	}
	d := newDesk(t)
	d.write("old", "precious")
	d.write("Containerfile", "ARG IMAGE\nFROM $IMAGE\nCOPY old /copied\nRUN [\"/bin/busybox\", \"mkdir\", \"/made\"]\nRUN [\"/bin/busybox\", \"id\"]\n")
	registry := newRegistry(t)
	port := registry.Addr().(*net.TCPAddr).String()
	port = port[strings.LastIndexByte(port, ':')+1:]
	d.write("script", `set -eux
image=host.sandbox.internal:$1/app
podman pull -q --tls-verify=false $image
! podman pull -q --tls-verify=false registry.test:$1/app
podman run --rm -v "$PWD:/src" -w /src $image /bin/busybox sh -c 'echo new >made; rm old'
test ! -e old && grep new made
echo again >old
podman build -q --build-arg IMAGE=$image -t local/built .
test "$(podman run --rm local/built /bin/busybox cat /copied)" = again
podman run --rm local/built /bin/busybox test -d /made
podman run -d --name service local/built /bin/busybox sleep 1000
test "$(podman exec service /bin/busybox id -u)" = 0
podman rm -f -t 0 service
container=$(buildah from local/built)
buildah run $container /bin/busybox touch /more
buildah rm $container
podman run --rm --network none $image /bin/busybox true
test "$(id -u)" != 0
`)
	cmd := d.sandbox("run", "--containers", "--network", "allowlist", "--allow-host", "host.sandbox.internal:"+port, "--", "sh", "script", port)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	d.must("undo")
	if b, err := os.ReadFile(d.dir + "/old"); err != nil || string(b) != "precious" || d.exists("made") {
		t.Errorf("after undo: %q, %v", b, err)
	}
	if os.Getuid() != 0 { // the user's cache keeps images, and directories in them that even he may not write
		again := d.must("run", "--containers", "--", "podman", "images", "-q")
		if again == "" {
			t.Error("no image is left for the next session")
		}
		d.must("overlay", "discard")
	}
	if found, err := os.ReadFile("/proc/self/mounts"); err != nil || bytes.Contains(found, []byte("sandbox-containers")) {
		t.Errorf("mounts on the host: %v, %s", err, found)
	}
}

// newRegistry serves an image with a static busybox, as a registry of the OCI distribution
// specification does.
func newRegistry(t *testing.T) net.Listener {
	t.Helper()
	busybox, err := os.ReadFile(require.Program(t, "busybox", "busybox-static"))
	if err != nil {
		t.Fatal(err)
	}
	var plain, packed bytes.Buffer
	w := tar.NewWriter(&plain)
	for _, h := range []*tar.Header{
		{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o755},
		// Another owner than root: a jail has one user id.
		{Name: "etc/shadow", Typeflag: tar.TypeReg, Mode: 0o640, Gid: 42},
		{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(busybox))},
	} {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write(busybox); err != nil {
				t.Fatal(err)
			}
		}
	}
	z := gzip.NewWriter(&packed)
	for _, err := range []error{w.Close(), writeAll(z, plain.Bytes()), z.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	blobs := map[string][]byte{}
	add := func(kind string, b []byte) map[string]any {
		sum := sha256.Sum256(b)
		digest := "sha256:" + hex.EncodeToString(sum[:])
		blobs[digest] = b
		return map[string]any{"mediaType": kind, "digest": digest, "size": len(b)}
	}
	marshal := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	layer := sha256.Sum256(plain.Bytes())
	config := marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{}, "history": []any{map[string]any{"created_by": "a test"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(layer[:])}},
	})
	const manifestType = "application/vnd.oci.image.manifest.v1+json"
	manifest := marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": add("application/vnd.oci.image.config.v1+json", config),
		"layers": []any{add("application/vnd.oci.image.layer.v1.tar+gzip", packed.Bytes())},
	})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, ok := strings.CutPrefix(r.URL.Path, "/v2/")
		switch blob, digest, _ := strings.Cut(path, "app/blobs/"); {
		case ok && path == "":
		case strings.HasPrefix(path, "app/manifests/"):
			w.Header().Set("Content-Type", manifestType)
			_, _ = w.Write(manifest)
		case blob == "" && blobs[digest] != nil:
			_, _ = w.Write(blobs[digest])
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.Listener
}

func writeAll(z *gzip.Writer, b []byte) error {
	_, err := z.Write(b)
	return err
}
