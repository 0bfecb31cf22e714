package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/codeagent/sandbox/guest/image"
)

// sourcesFile has the source packages of what is in the guest images: the kernel's, busybox', and the C library's, which is in busybox.
const sourcesFile = "guest_sources.tar"

// guestFile is the file of the guest image for a processor.
func guestFile(arch string) string { return "guest_" + arch + ".tar.zst" }

// processors are those that a release is for.
func processors() []string { return []string{"amd64", "arm64"} }

// owed are the source packages of the images in a directory, as apt-get source takes them.
func owed(images string) (sources []string, err error) {
	for _, arch := range processors() {
		f, err := os.Open(filepath.Join(images, guestFile(arch)))
		if err != nil {
			return nil, err
		}
		m, err := image.ArchiveManifest(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", guestFile(arch), err)
		}
		if len(m.BuiltFrom) == 0 {
			return nil, fmt.Errorf("%s does not say which sources it was built from, which whoever hands it on owes: make it again", guestFile(arch))
		}
		sources = append(sources, m.BuiltFrom...)
	}
	slices.Sort(sources)
	return slices.Compact(sources), nil
}

// description is the name of the file that describes a source package and names its other files.
func description(source string) string {
	name, version, _ := strings.Cut(source, "=")
	if _, rest, ok := strings.Cut(version, ":"); ok { // the epoch is in no file's name
		version = rest
	}
	return name + "_" + version + ".dsc"
}

// writeSources puts the sources of the images in a directory there, as one archive.
func writeSources(images string) error {
	sources, err := owed(images)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "sources-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := download(work, sources); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(images, sourcesFile))
	if err != nil {
		return err
	}
	err = packSources(out, filepath.Join(work, "files"), sources)
	return errors.Join(err, out.Close())
}

// sourceLine is where a list of packages says what kind it is of: a stanza's field, or the first word of a line.
var sourceLine = regexp.MustCompile(`(?m)^(Types:.*|deb(-src)?\b)`)

// download gets source packages into the directory "files", by apt and with its checks, from where this system has its packages from.
func download(work string, sources []string) error {
	for _, dir := range []string{"lists/partial", "state", "cache/archives/partial", "parts", "files"} {
		if err := os.MkdirAll(filepath.Join(work, dir), 0o755); err != nil {
			return err
		}
	}
	out, err := exec.Command("apt-config", "shell", "LIST", "Dir::Etc::sourcelist/f", "PARTS", "Dir::Etc::sourceparts/d").Output()
	if err != nil {
		return fmt.Errorf("apt-config: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		_, path, _ := strings.Cut(strings.TrimSpace(line), "=")
		path = strings.Trim(path, "'")
		files, _ := filepath.Glob(filepath.Join(path, "*"))
		for _, file := range append(files, path) {
			text, err := os.ReadFile(file)
			if kind := filepath.Ext(file); err != nil || kind != ".list" && kind != ".sources" {
				continue
			}
			text = sourceLine.ReplaceAllFunc(text, func(kind []byte) []byte {
				if bytes.HasPrefix(kind, []byte("Types")) {
					return []byte("Types: deb-src")
				}
				return []byte("deb-src")
			})
			if err := os.WriteFile(filepath.Join(work, "parts", filepath.Base(file)), text, 0o644); err != nil {
				return err
			}
		}
	}
	apt := func(args ...string) error {
		at := func(name, dir string) string { return "-oDir::" + name + "=" + filepath.Join(work, dir) }
		cmd := exec.Command("apt-get", append([]string{"-q", "-oAPT::Sandbox::User=", "-oAcquire::Retries=3", "-oAcquire::Languages=none", "-oDir::State::status=/dev/null",
			at("State", "state"), at("State::lists", "lists"), at("Cache", "cache"), at("Etc::sourceparts", "parts"), "-oDir::Etc::sourcelist=/dev/null"}, args...)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join(work, "files"), os.Stderr, os.Stderr
		return cmd.Run()
	}
	// One of several places may have no sources: what is missing is seen next.
	updated := apt("update")
	if err := apt(append([]string{"source", "--download-only", "--only-source"}, sources...)...); err != nil {
		return errors.Join(fmt.Errorf("apt-get source %s: %w", strings.Join(sources, " "), err), updated)
	}
	return nil
}

// packSources writes an archive of all files of a directory. The same files give the same bytes.
func packSources(out io.Writer, dir string, sources []string) error {
	w := tar.NewWriter(out)
	about := "The source packages of what is in the guest images of this release (manifest.json in each: built_from):\n\n"
	for _, s := range sources {
		about += "  " + description(s) + "\n"
	}
	about += "\nA .dsc file has the checksums of its package's other files; 'dpkg-source --extract FILE.dsc' unpacks it.\n"
	if err := os.WriteFile(filepath.Join(dir, "README"), []byte(about), 0o644); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := packSource(w, filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return w.Close()
}

func packSource(w *tar.Writer, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil {
		err = w.WriteHeader(&tar.Header{Name: "sources/" + filepath.Base(file), Mode: 0o644, Size: st.Size(), ModTime: time.Unix(0, 0)})
	}
	if err == nil {
		_, err = io.Copy(w, f)
	}
	return err
}

// checkSources returns an error unless the archive beside the images has all that they owe.
func checkSources(images string) error {
	missing, err := owed(images)
	if err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(images, sourcesFile))
	if err != nil {
		return err
	}
	defer f.Close()
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", sourcesFile, err)
		}
		missing = slices.DeleteFunc(missing, func(s string) bool { return description(s) == filepath.Base(h.Name) && h.Size > 0 })
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s has not the sources of what is in the guest images: %s; 'make images' makes both", sourcesFile, strings.Join(missing, ", "))
	}
	return nil
}
