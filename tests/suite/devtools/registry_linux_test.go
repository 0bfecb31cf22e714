package devtools

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// What every registry has is greet 1.0.0, which says this.
const greeting = "hello from the registry"

// registry serves greet to npm, go, pip and cargo, each below a directory of its
// own, on the host's loopback.
type registry struct {
	port     string
	requests atomic.Int64
}

// base is the registry as it is named inside.
func (r *registry) base() string { return "http://host.sandbox.internal:" + r.port }

func newRegistry(t *testing.T) *registry {
	t.Helper()
	r, mux := &registry{}, http.NewServeMux()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.requests.Add(1)
		mux.ServeHTTP(w, req)
	}))
	r.port = server.Listener.Addr().String()[strings.LastIndex(server.Listener.Addr().String(), ":")+1:]
	r.serveNPM(t, mux)
	r.serveGo(t, mux)
	r.servePyPI(t, mux)
	r.serveCargo(t, mux)
	server.Start()
	t.Cleanup(server.Close)
	return r
}

// serveNPM has the packument and the tarball that it names.
func (r *registry) serveNPM(t *testing.T, mux *http.ServeMux) {
	ball := tarball(t, "package/package.json", `{"name": "greet", "version": "1.0.0", "main": "index.js"}`, "package/index.js", "module.exports = '"+greeting+"'\n")
	sum := sha512.Sum512(ball)
	packument, err := json.Marshal(map[string]any{
		"name": "greet", "dist-tags": map[string]string{"latest": "1.0.0"},
		"versions": map[string]any{"1.0.0": map[string]any{
			"name": "greet", "version": "1.0.0", "main": "index.js",
			"dist": map[string]string{"tarball": r.base() + "/npm/greet/-/greet-1.0.0.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle("GET /npm/greet", fixed("application/json", packument))
	mux.Handle("GET /npm/greet/-/greet-1.0.0.tgz", fixed("application/octet-stream", ball))
}

// serveGo is the GOPROXY protocol.
func (r *registry) serveGo(t *testing.T, mux *http.ServeMux) {
	const mod, at = "module example.test/greet\n\ngo 1.21\n", "example.test/greet@v1.0.0/"
	versions := "GET /go/example.test/greet/@v/"
	mux.Handle(versions+"list", fixed("text/plain", []byte("v1.0.0\n")))
	mux.Handle(versions+"v1.0.0.info", fixed("application/json", []byte(`{"Version":"v1.0.0","Time":"2026-01-02T03:04:05Z"}`)))
	mux.Handle(versions+"v1.0.0.mod", fixed("text/plain", []byte(mod)))
	mux.Handle(versions+"v1.0.0.zip", fixed("application/zip", zipped(t, at+"go.mod", mod, at+"greet.go", "package greet\n\nconst Text = \""+greeting+"\"\n")))
}

// servePyPI is the simple index in JSON (PEP 691), and for old pips as HTML (PEP 503).
func (r *registry) servePyPI(t *testing.T, mux *http.ServeMux) {
	const info, name = "greet-1.0.0.dist-info/", "greet-1.0.0-py3-none-any.whl"
	wheel := zipped(t, "greet.py", "text = '"+greeting+"'\n",
		info+"METADATA", "Metadata-Version: 2.1\nName: greet\nVersion: 1.0.0\n",
		info+"WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info+"RECORD", "greet.py,,\n"+info+"METADATA,,\n"+info+"WHEEL,,\n"+info+"RECORD,,\n")
	sum := sha256.Sum256(wheel)
	digest, url := hex.EncodeToString(sum[:]), r.base()+"/pypi/files/"+name
	mux.HandleFunc("GET /pypi/simple/greet/", func(w http.ResponseWriter, req *http.Request) {
		if strings.Contains(req.Header.Get("Accept"), "application/vnd.pypi.simple.v1+json") {
			w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
			fmt.Fprintf(w, `{"meta":{"api-version":"1.0"},"name":"greet","files":[{"filename":%q,"url":%q,"hashes":{"sha256":%q}}]}`, name, url, digest)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!DOCTYPE html><html><body><a href="%s#sha256=%s">%s</a></body></html>`, url, digest, name)
	})
	mux.Handle("GET /pypi/files/"+name, fixed("application/octet-stream", wheel))
}

// serveCargo is a sparse index and its crates.
func (r *registry) serveCargo(t *testing.T, mux *http.ServeMux) {
	crate := tarball(t, "greet-1.0.0/Cargo.toml", "[package]\nname = \"greet\"\nversion = \"1.0.0\"\nedition = \"2021\"\n",
		"greet-1.0.0/src/lib.rs", "pub const TEXT: &str = \""+greeting+"\";\n")
	sum := sha256.Sum256(crate)
	mux.Handle("GET /cargo/config.json", fixed("application/json", []byte(`{"dl":"`+r.base()+`/cargo/crates"}`)))
	mux.Handle("GET /cargo/gr/ee/greet", fixed("text/plain", []byte(`{"name":"greet","vers":"1.0.0","deps":[],"cksum":"`+hex.EncodeToString(sum[:])+`","features":{},"yanked":false}`+"\n")))
	mux.Handle("GET /cargo/crates/greet/1.0.0/download", fixed("application/octet-stream", crate))
}

func fixed(contentType string, data []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(data) // the client may have gone
	})
}

// tarball is a .tar.gz of names and texts.
func tarball(t *testing.T, pairs ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	g := gzip.NewWriter(&b)
	w := tar.NewWriter(g)
	for i := 0; i < len(pairs); i += 2 {
		err := w.WriteHeader(&tar.Header{Name: pairs[i], Mode: 0o644, Size: int64(len(pairs[i+1])), ModTime: time.Unix(1e9, 0)})
		if err == nil {
			_, err = w.Write([]byte(pairs[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// zipped is an archive of names and texts.
func zipped(t *testing.T, pairs ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		f, err := w.Create(pairs[i])
		if err == nil {
			_, err = f.Write([]byte(pairs[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
