package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// The media types of the OCI image format, version 1.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// imageName is where the workflow pushes the image.
const imageName = "ghcr.io/codeagent/sandbox"

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// manifest is an image's, or an index of several.
type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        *descriptor       `json:"config,omitempty"`
	Layers        []descriptor      `json:"layers,omitempty"`
	Manifests     []descriptor      `json:"manifests,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type imageConfig struct {
	Created time.Time `json:"created"`
	platform
	Config struct {
		Entrypoint []string          `json:"Entrypoint"`
		Labels     map[string]string `json:"Labels"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
	History []struct {
		Created   time.Time `json:"created"`
		CreatedBy string    `json:"created_by"`
	} `json:"history"`
}

type layerFile struct {
	name string
	mode int64
	data []byte
}

// ociImage is an image for several processors, as a layout in a tar archive, which
// 'skopeo copy --all oci-archive:FILE' pushes and 'podman load' reads.
type ociImage struct {
	version, commit string
	created         time.Time
	blobs           []layerFile
	images          []descriptor
}

func (m *ociImage) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    "sandbox",
		"org.opencontainers.image.source":   "https://github.com/codeagent/sandbox",
		"org.opencontainers.image.version":  m.version,
		"org.opencontainers.image.revision": m.commit,
		"org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
	}
}

// add adds the image for one processor, of one layer.
func (m *ociImage) add(arch string, files []layerFile) error {
	plain, err := m.tarred(files)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = z.Write(plain)
	if err = errors.Join(err, z.Close()); err != nil {
		return err
	}
	config := imageConfig{Created: m.created, platform: platform{arch, "linux"}}
	config.Config.Entrypoint = []string{"/usr/bin/sandbox"}
	config.Config.Labels = m.labels()
	config.RootFS.Type, config.RootFS.DiffIDs = "layers", []string{digest(plain)}
	config.History = append(config.History, struct {
		Created   time.Time `json:"created"`
		CreatedBy string    `json:"created_by"`
	}{m.created, "make release"})
	about, err := m.json(typeConfig, config)
	if err != nil {
		return err
	}
	d, err := m.json(typeManifest, manifest{
		SchemaVersion: 2, MediaType: typeManifest, Config: &about, Layers: []descriptor{m.blob(typeLayer, packed.Bytes())}, Annotations: m.labels(),
	})
	d.Platform = &config.platform
	m.images = append(m.images, d)
	return err
}

// write writes the archive.
func (m *ociImage) write(file string) error {
	if len(m.images) == 0 {
		return errors.New("no program for the image")
	}
	slices.SortFunc(m.images, func(a, b descriptor) int { return strings.Compare(a.Platform.Architecture, b.Platform.Architecture) })
	all, err := m.json(typeIndex, manifest{SchemaVersion: 2, MediaType: typeIndex, Manifests: m.images, Annotations: m.labels()})
	if err != nil {
		return err
	}
	// The tag, and the name that podman, containerd and Docker give to what they load.
	all.Annotations = map[string]string{
		"org.opencontainers.image.ref.name": m.version, "io.containerd.image.name": imageName + ":" + m.version,
	}
	index, err := json.Marshal(manifest{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{all}})
	if err != nil {
		return err
	}
	files := append([]layerFile{{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", 0o644, index}}, m.blobs...)
	text, err := m.tarred(files)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

func (m *ociImage) json(mediaType string, v any) (descriptor, error) {
	text, err := json.Marshal(v)
	return m.blob(mediaType, text), err
}

// blob keeps data and describes it.
func (m *ociImage) blob(mediaType string, data []byte) descriptor {
	d := descriptor{MediaType: mediaType, Digest: digest(data), Size: len(data)}
	name := "blobs/sha256/" + strings.TrimPrefix(d.Digest, "sha256:")
	if !slices.ContainsFunc(m.blobs, func(f layerFile) bool { return f.name == name }) {
		m.blobs = append(m.blobs, layerFile{name, 0o644, data})
	}
	return d
}

// tarred is an archive of files, with the directories that they are in.
func (m *ociImage) tarred(files []layerFile) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	made := map[string]bool{".": true}
	var directory func(name string) error
	directory = func(name string) error {
		if made[name] {
			return nil
		}
		made[name] = true
		return errors.Join(directory(path.Dir(name)),
			w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: m.created}))
	}
	for _, f := range files {
		err := directory(path.Dir(f.name))
		err = errors.Join(err, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: m.created}))
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
