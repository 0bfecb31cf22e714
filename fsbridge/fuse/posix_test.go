//go:build linux

package fuse

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"

	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// TestPosix runs go-fuse's own suite over our mount, with and without an
// Interceptor and in both cache modes.
func TestPosix(t *testing.T) {
	for name, configure := range map[string]func(*vfs.Options){
		"plain":       nil,
		"intercepted": func(o *vfs.Options) { o.Hooks = new(recorder) },
		"uncached":    func(o *vfs.Options) { o.Cache = vfs.CacheNone },
		"owner": func(o *vfs.Options) {
			o.Owner = &vfs.Owner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
			o.Hooks = new(recorder)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for test, f := range posixtest.All {
				if test == "FcntlFlockLocksFile" {
					continue // go-fuse leaves it out, too: it fails on native file systems
				}
				t.Run(test, func(t *testing.T) {
					m := mount(t, configure)
					dir := filepath.Join(m.mnt, "work")
					if err := os.Mkdir(dir, 0o755); err != nil {
						t.Fatal(err)
					}
					f(t, dir)
				})
			}
		})
	}
}
