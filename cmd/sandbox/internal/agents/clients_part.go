package agents

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Want is what shall be in a client's files.
type Want struct {
	// Name is what the server is called; Server is what the client starts.
	Name   string
	Server Server
	// MCP: the server is wanted. Shell: the hook, and the command that undoes.
	MCP, Shell bool
	// Hook is the command line of the hook.
	Hook string
	// Force takes entries and files for ours that are not.
	Force bool
}

// Part is one file of a client, with what of it is ours.
type Part struct {
	// What is ours there, for people.
	What string
	File string

	mode        fs.FileMode
	add, remove func(text []byte) ([]byte, error)
	// prune takes away, in steps, what add had to make for it; nil: nothing.
	prune func(text []byte) ([][]byte, error)
	// pristine reports whether a file that is ours from end to end is as we made it;
	// nil: the file is not ours.
	pristine func(text []byte) bool
	// pinned: the file's text has to be the expected one.
	pinned   bool
	expected []byte
}

// Parts are the files that a client reads what is wanted from, in the order in which
// it is put there.
func (c Client) Parts(p Places, s Scope, w Want) ([]Part, error) {
	var parts []Part
	if w.MCP {
		part, err := c.server(p, s, w.Name, w.Server, w.Force)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	if w.Shell {
		if why := c.NoShell(p); why != "" {
			return nil, fmt.Errorf("nothing routes the shell of %s: %s", c.Title, why)
		}
		for _, make := range []func(Places, Scope, Want) (Part, error){c.hookPart, c.undoPart} {
			part, err := make(p, s, w)
			if err != nil {
				return nil, err
			}
			parts = append(parts, part)
		}
	}
	return parts, nil
}

// Snippet is what Add would put into an empty file.
func (p Part) Snippet() ([]byte, error) { return p.add(nil) }

// Add puts what is ours into the file.
func (p Part) Add(within string, mode fs.FileMode, now time.Time) (Change, error) {
	if p.mode != 0 && within == "" {
		mode = p.mode
	}
	return Edit(p.File, within, mode, now, func(text []byte) ([]byte, error) {
		if err := p.fresh(text); err != nil {
			return nil, err
		}
		return p.add(text)
	})
}

// Remove takes what is ours out of the file. Of what is left it leaves what was there
// before Add, as far as the copies beside the file say it; a file that Add has made goes.
func (p Part) Remove(within string, now time.Time) (Change, error) {
	return Edit(p.File, within, 0, now, func(text []byte) ([]byte, error) {
		if err := p.fresh(text); err != nil {
			return nil, err
		}
		return p.without(text, nil)
	})
}

// without is a text without what is ours, nil or the error gone if no file is to be left.
// copies are texts beside those of the copies on disk.
func (p Part) without(text []byte, copies [][]byte) ([]byte, error) {
	if text == nil {
		return nil, nil
	}
	left, err := p.remove(text)
	if err != nil || bytes.Equal(left, text) {
		return left, err
	}
	if p.pristine != nil {
		return nil, gone{keep: !p.pristine(text)}
	}
	onDisk, err := backups(p.File)
	if err != nil {
		return nil, err
	}
	if copies = append(onDisk, copies...); known(copies, left) {
		return left, nil
	}
	if p.prune != nil {
		steps, err := p.prune(left)
		if err != nil {
			return nil, err
		}
		for _, left = range steps {
			if known(copies, left) {
				return left, nil
			}
		}
	}
	if empty(left) {
		return nil, gone{}
	}
	return left, nil
}

// Whole is a file whose text becomes another. It cannot be removed.
func Whole(what, file string, text []byte) Part {
	return Part{What: what, File: file, add: func([]byte) ([]byte, error) { return text, nil }}
}

// ownFile is a file that is ours from end to end: it has the marker.
func ownFile(what, file, text string, force bool) Part {
	whole := []byte(text)
	mine := func(have []byte) bool { return force || bytes.Contains(have, []byte(marker)) }
	return Part{
		What: what, File: file,
		pristine: func(have []byte) bool { return bytes.Equal(have, whole) },
		add: func(have []byte) ([]byte, error) {
			if have != nil && !mine(have) {
				return nil, ErrForeign
			}
			return whole, nil
		},
		remove: func(have []byte) ([]byte, error) {
			if !mine(have) {
				return nil, ErrForeign
			}
			return nil, nil
		},
	}
}

// marker is in the files that are ours.
const marker = "made by 'sandbox install'; 'sandbox uninstall' removes it"

// pruned removes sections that have become empty, one after the other.
func pruned(text []byte, d jsoncDialect, path ...string) (steps [][]byte, err error) {
	for ; len(path) > 0; path = path[:len(path)-1] {
		have, err := jsoncGet(text, d, path...)
		if err != nil || string(have) != "{}" && string(have) != "[]" {
			return steps, err
		}
		if text, err = jsoncRemove(text, d, path...); err != nil {
			return nil, err
		}
		steps = append(steps, text)
	}
	return steps, nil
}

// empty reports whether a text says nothing.
func empty(text []byte) bool {
	rest := strings.Join(strings.Fields(string(text)), "")
	return rest == "" || rest == "{}"
}

// backups are the texts of the copies beside a file.
func backups(file string) ([][]byte, error) {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Dir(real))
	if err != nil {
		return nil, err
	}
	var texts [][]byte
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), filepath.Base(real)+".") || !strings.HasSuffix(e.Name(), ".bak") {
			continue
		}
		text, st, err := read(filepath.Join(filepath.Dir(real), e.Name()))
		if err != nil || st == nil {
			continue // not one of ours, or gone
		}
		texts = append(texts, text)
	}
	return texts, nil
}

func known(texts [][]byte, text []byte) bool {
	for _, t := range texts {
		if bytes.Equal(t, text) {
			return true
		}
	}
	return false
}

// gone is what an edit returns if the file is to go; keep: a copy stays.
type gone struct{ keep bool }

func (gone) Error() string { return "the file is to go" }

// discard removes a file, and the directories above it that are empty then, up to one
// that the user has anyway.
func discard(real string) error {
	if err := os.Remove(real); err != nil {
		return err
	}
	home, _ := os.UserHomeDir()
	config, _ := os.UserConfigDir()
	project, _ := os.Getwd()
	for dir := filepath.Dir(real); ; dir = filepath.Dir(dir) {
		for _, keep := range []string{home, config, project, "", "/"} {
			if at, err := filepath.EvalSymlinks(keep); err == nil && at == dir || keep == dir {
				return nil
			}
		}
		if filepath.Dir(dir) == dir || os.Remove(dir) != nil {
			return nil
		}
	}
}
