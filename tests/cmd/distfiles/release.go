package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
	"time"
)

// artifact is an entry of GoReleaser's artifacts.json.
type artifact struct {
	Path   string `json:"path"` // from the root of the module
	GOARCH string `json:"goarch"`
	Type   string `json:"type"`
}

// metadata is GoReleaser's metadata.json, as far as it is needed.
type metadata struct {
	Version string `json:"version"`
	Tag     string `json:"tag"`
}

// facts are what the templates of packaging may say.
type facts struct {
	Version, Tag string
	SHA256       map[string]string // of the archives, by processor
}

var archive = regexp.MustCompile(`(?m)^([0-9a-f]{64})  sandbox_.*_linux_(amd64|arm64)\.tar\.gz$`)

// writeRelease makes the image and the texts in the directory that GoReleaser has filled, and puts the guest images of another one there.
func writeRelease(dist, images string) error {
	var meta metadata
	if err := readJSON(filepath.Join(dist, "metadata.json"), &meta); err != nil {
		return err
	}
	var made []artifact
	if err := readJSON(filepath.Join(dist, "artifacts.json"), &made); err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(dist, "checksums.txt"))
	if err != nil {
		return err
	}
	f := facts{Version: meta.Version, Tag: meta.Tag, SHA256: map[string]string{}}
	for _, m := range archive.FindAllSubmatch(sums, -1) {
		f.SHA256[string(m[2])] = string(m[1])
	}
	if len(f.SHA256) != 2 {
		return fmt.Errorf("%s/checksums.txt does not name the two archives", dist)
	}
	for name, file := range map[string]string{"packaging/homebrew/sandbox.rb.tmpl": "sandbox.rb", "packaging/nix/flake.nix.tmpl": "flake.nix"} {
		if err := expand(name, filepath.Join(dist, file), f); err != nil {
			return err
		}
	}
	files, err := documents()
	if err != nil {
		return err
	}
	// GoReleaser does not know the commit of a clone without a remote; the Makefile does.
	created, err := time.Parse(time.RFC3339, os.Getenv("DATE"))
	if err != nil {
		return fmt.Errorf("DATE: %w", err)
	}
	image := ociImage{version: meta.Version, commit: os.Getenv("COMMIT"), created: created.UTC()}
	for _, a := range made {
		if a.Type != "Binary" {
			continue
		}
		program, err := os.ReadFile(a.Path)
		if err != nil {
			return err
		}
		if err := image.add(a.GOARCH, append([]layerFile{{"usr/bin/sandbox", 0o755, program}}, files...)); err != nil {
			return err
		}
	}
	name := "sandbox_" + meta.Version + "_oci.tar"
	if err := image.write(filepath.Join(dist, name)); err != nil {
		return err
	}
	added := []string{"flake.nix", "sandbox.rb", name}
	guests := []string{sourcesFile}
	if err := checkSources(images); errors.Is(err, fs.ErrNotExist) && os.Getenv("PUBLISH") == "" {
		fmt.Fprintln(os.Stderr, "distfiles: this is no release to be published: it has not the sources of the guest images:", err)
		guests = nil
	} else if err != nil {
		return err
	}
	for _, arch := range processors() {
		guests = append(guests, guestFile(arch))
	}
	for _, file := range guests {
		target := "sandbox_" + meta.Version + "_" + file
		if err := copyFile(filepath.Join(images, file), filepath.Join(dist, target)); err != nil {
			return err
		}
		added = append(added, target)
	}
	return addSums(dist, added...)
}

func copyFile(source, target string) error {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(target)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// addSums adds files to checksums.txt that GoReleaser has not made.
func addSums(dist string, names ...string) (err error) {
	list, err := os.OpenFile(filepath.Join(dist, "checksums.txt"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, list.Close()) }()
	for _, name := range names {
		sum, err := sumOf(filepath.Join(dist, name))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(list, "%x  %s\n", sum, name); err != nil {
			return err
		}
	}
	return nil
}

func sumOf(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return h.Sum(nil), err
}

// documents are the files that the licences want to be beside the program.
func documents() ([]layerFile, error) {
	var files []layerFile
	for _, path := range []string{"LICENSE-APACHE", "LICENSE-MIT", "bin/extras/licences/THIRD-PARTY"} {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, layerFile{"usr/share/doc/sandbox/" + filepath.Base(path), 0o644, text})
	}
	return files, nil
}

func expand(source, target string, f facts) error {
	t, err := template.ParseFiles(source)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := t.Option("missingkey=error").Execute(&text, f); err != nil {
		return err
	}
	if strings.Contains(text.String(), "<no value>") {
		return fmt.Errorf("%s: a value is missing", source)
	}
	return os.WriteFile(target, text.Bytes(), 0o644)
}

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
