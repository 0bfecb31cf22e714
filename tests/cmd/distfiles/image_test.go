package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func untar(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

// TestImage follows the image from its index to the programs, and makes it twice.
func TestImage(t *testing.T) {
	var made [2][]byte
	for i := range made {
		m := ociImage{version: "1.2.3", commit: "abc", created: time.Unix(1700000000, 0).UTC()}
		for _, arch := range []string{"arm64", "amd64"} {
			if err := m.add(arch, []layerFile{{"usr/bin/sandbox", 0o755, []byte("program for " + arch)}}); err != nil {
				t.Fatal(err)
			}
		}
		file := filepath.Join(t.TempDir(), "image.tar")
		if err := m.write(file); err != nil {
			t.Fatal(err)
		}
		made[i], _ = os.ReadFile(file)
	}
	if !bytes.Equal(made[0], made[1]) {
		t.Error("the same input gave other bytes")
	}
	files := untar(t, bytes.NewReader(made[0]))
	blob := func(d descriptor) []byte {
		data := files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
		if digest(data) != d.Digest || len(data) != d.Size {
			t.Fatalf("%s is not what its descriptor says", d.Digest)
		}
		return data
	}
	read := func(text []byte) (m manifest) {
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	images := read(blob(read(files["index.json"]).Manifests[0])).Manifests
	if len(images) != 2 {
		t.Fatalf("%d images", len(images))
	}
	for _, d := range images {
		m := read(blob(d))
		var config imageConfig
		if err := json.Unmarshal(blob(*m.Config), &config); err != nil || config.Architecture != d.Platform.Architecture {
			t.Errorf("the configuration is for %s, %v", config.Architecture, err)
		}
		z, err := gzip.NewReader(bytes.NewReader(blob(m.Layers[0])))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(z)
		if err != nil || digest(plain) != config.RootFS.DiffIDs[0] {
			t.Errorf("the layer is not what the configuration says: %v", err)
		}
		if got := string(untar(t, bytes.NewReader(plain))["usr/bin/sandbox"]); got != "program for "+d.Platform.Architecture {
			t.Errorf("the program is %q", got)
		}
	}
}
