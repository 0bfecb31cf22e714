package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/tests/bench/internal/report"
	"github.com/codeagent/sandbox/tests/kit/direct"
)

// bridged is a folder behind our bridge, served by this process.
type bridged struct {
	plain
	root   *hostfs.Root
	server *direct.Mounted
}

// newBridge mounts the folder dir at a directory of the name; hooks may be nil.
func newBridge(l *lab, name, dir string, hooks fsbridge.Interceptor) (*bridged, error) {
	hostfs.ClearUmask()
	mount := filepath.Join(l.scratch, name)
	if err := os.Mkdir(mount, 0o755); err != nil {
		return nil, err
	}
	root, err := hostfs.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	server, err := direct.Mount(mount, vfs.Options{Root: root, Hooks: hooks})
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	b := &bridged{plain: plain{label: name, dir: mount, pid: -1}, root: root, server: server}
	b.close = func() error {
		err := server.Close()
		<-server.Done()
		_ = root.Close()
		return err
	}
	return b, nil
}

// newBare is the bridge without interception.
func newBare(ctx context.Context, l *lab) (side, error) {
	dir, err := l.populated(ctx, "bare.d")
	if err != nil {
		return nil, err
	}
	return newBridge(l, "bridge", dir, nil)
}

// requests prints how many requests of each kind a workload makes, by file of
// the tree: each costs a round trip.
func requests(ctx context.Context, l *lab, r *report.Report) error {
	dir, err := l.populated(ctx, "count.d")
	if err != nil {
		return err
	}
	b, err := newBridge(l, "count", dir, nil)
	if err != nil {
		return err
	}
	defer b.Close()
	before := map[string]uint64{}
	for _, w := range workloads(l.archive) {
		if w.name == "4 KiB random writes" || w.name == "cleaning up" {
			continue
		}
		if w.before != "" {
			if _, err := b.run(ctx, w.before); err != nil {
				return err
			}
		}
		for k, v := range b.server.Tree().Counts() {
			before[k] = v
		}
		if _, err := b.run(ctx, w.script); err != nil {
			return err
		}
		total, kinds := uint64(0), []string{}
		for k, v := range b.server.Tree().Counts() {
			n := v - before[k]
			if total += n; n*100 >= uint64(l.files) {
				kinds = append(kinds, fmt.Sprintf("%s %.2f", k, float64(n)/float64(l.files)))
			}
		}
		sort.Strings(kinds)
		r.Value("requests for each file of the tree", w.name+" ("+strings.Join(kinds, ", ")+")", float64(total)/float64(l.files), "requests", 0)
	}
	unix.Sync()
	return nil
}
