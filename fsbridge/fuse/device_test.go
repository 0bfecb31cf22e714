//go:build linux

package fuse

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// TestManyHeld: each held operation takes a worker. There is always one more,
// whether the Interceptor says that it holds or the watch has to find out.
func TestManyHeld(t *testing.T) {
	for name, tell := range map[string]bool{"told": true, "found": false} {
		t.Run(name, func(t *testing.T) {
			h := newHolder()
			gate := func(op *fsbridge.Op) error {
				if !strings.HasPrefix(op.Name, "held") {
					return nil
				}
				if tell {
					op.Held(op.Request)
				}
				h.arrived <- op.PID
				return <-h.release
			}
			m := mount(t, func(o *vfs.Options) { o.Hooks = &recorder{gate: gate} })
			const many = 200
			results := make(chan error, many)
			for i := range many {
				// Each in its directory: the kernel lets one in at a time.
				dir := filepath.Join(m.mnt, fmt.Sprint(i))
				check(t, os.Mkdir(dir, 0o755))
				go func() { results <- os.Mkdir(filepath.Join(dir, "held"), 0o755) }()
			}
			within(t, "holding", func() {
				for range many {
					<-h.arrived
				}
				check(t, os.WriteFile(filepath.Join(m.mnt, "free"), []byte("x"), 0o644))
			})
			for range many {
				h.release <- nil
			}
			within(t, "letting go", func() {
				for range many {
					check(t, <-results)
				}
			})
		})
	}
}

// TestParallelReaders: whoever reads at the same time gets his own file's bytes.
func TestParallelReaders(t *testing.T) {
	m := mount(t, func(o *vfs.Options) { o.Cache = vfs.CacheNone })
	const readers, size = 16, 300_000
	for i := range readers {
		check(t, os.WriteFile(filepath.Join(m.host, fmt.Sprint(i)), bytes.Repeat([]byte{byte(i)}, size), 0o644))
	}
	var wg sync.WaitGroup
	for i := range readers {
		wg.Go(func() {
			want := bytes.Repeat([]byte{byte(i)}, size)
			for range 20 {
				got, err := os.ReadFile(filepath.Join(m.mnt, fmt.Sprint(i)))
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("reader %d: %d bytes, %v", i, len(got), err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// buffered is how many bytes of buffers there may be.
func (d *device) buffered() int64 {
	workers := d.workers.Len()
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(len(d.inputs)+len(d.outputs)+2*workers) * requestBytes
}
