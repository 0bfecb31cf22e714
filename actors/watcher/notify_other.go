//go:build !linux

package watcher

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// notify is fsnotify as a [Source].
type notify struct {
	root string
	w    *fsnotify.Watcher
}

// Share is how many directories that nobody has looked into may be watched where caches need watches, too; 0: there
// is no limit.
func Share() int { return 0 }

func newSource(root string) (Source, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return &notify{root, w}, nil
}

// pathDir is a directory of which only the path is known.
type pathDir string

func (d pathDir) Path() (string, bool) { return string(d), true }
func (d pathDir) ID() hostfs.ID        { return hostfs.ID{} }

func (n *notify) Close() error { return n.w.Close() }

func (n *notify) Add(dir string, _ hostfs.ID) error { return n.w.Add(filepath.Join(n.root, dir)) }

// Read implements [Source]: one event, and what follows at once.
func (n *notify) Read() (b Batch, err error) {
	for {
		select {
		case ev, ok := <-n.w.Events:
			if !ok {
				return b, os.ErrClosed
			}
			n.take(ev, &b)
			continue
		default:
		}
		if len(b.Events) > 0 || b.Lost {
			return b, nil
		}
		select {
		case ev, ok := <-n.w.Events:
			if !ok {
				return b, os.ErrClosed
			}
			n.take(ev, &b)
		case err, ok := <-n.w.Errors:
			if !ok {
				return b, os.ErrClosed
			}
			b.Lost = errors.Is(err, fsnotify.ErrEventOverflow)
		}
	}
}

func (n *notify) take(ev fsnotify.Event, b *Batch) {
	rel, err := filepath.Rel(n.root, ev.Name)
	if err != nil || rel == "." || strings.HasPrefix(rel, "..") {
		return
	}
	dir, name := path.Split(filepath.ToSlash(rel))
	b.Events = append(b.Events, Event{pathDir(strings.TrimSuffix(dir, "/")), name})
}
