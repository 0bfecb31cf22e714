package image

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// Built is an image or a root file system that was built.
type Built struct {
	Arch string `json:"arch"`
	// Kind is "busybox" for what machines boot, and "debian" for a root file system beside it.
	Kind  string    `json:"kind"`
	Dir   string    `json:"dir"`
	At    time.Time `json:"built_at,omitzero"`
	Bytes int64     `json:"bytes"`
	// Version is the kernel's, or Debian's release.
	Version  string `json:"version,omitempty"`
	Packages int    `json:"packages,omitempty"` // in a root file system
	Problem  string `json:"problem,omitempty"`  // it cannot be used
}

// List finds what was built in a folder. It does not read all of it, as Verify does.
func List(dir string) []Built {
	list := []Built{}
	for _, arch := range []string{"amd64", "arm64"} {
		if i, err := Open(dir, arch); !errors.Is(err, os.ErrNotExist) {
			b := Built{Arch: arch, Kind: "busybox", Dir: filepath.Join(dir, arch), Version: i.Manifest.Kernel}
			for _, f := range i.Manifest.Files {
				b.Bytes += f.Bytes
			}
			list = append(list, b.found(err, kernelFile, baseFile))
		}
		if r, err := OpenRootFS(dir, arch); !errors.Is(err, os.ErrNotExist) {
			b := Built{Arch: arch, Kind: "debian", Dir: rootDir(dir, arch), Version: r.Manifest.Suite, Bytes: r.Manifest.File.Bytes, Packages: len(r.Manifest.Packages)}
			list = append(list, b.found(err, rootFile))
		}
	}
	return list
}

// found adds when it was built, and what is wrong with it.
func (b Built) found(err error, files ...string) Built {
	for _, name := range files {
		if err == nil {
			_, err = os.Stat(filepath.Join(b.Dir, name))
		}
	}
	if st, e := os.Stat(filepath.Join(b.Dir, manifestFile)); e == nil {
		b.At = st.ModTime()
	}
	if err != nil {
		b.Problem = err.Error()
	}
	return b
}
