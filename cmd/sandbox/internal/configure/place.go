package configure

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// place is where a level's file is, and those of the other levels.
type place struct {
	level  config.Level
	files  config.Sources
	folder string // empty: none
}

// file is the level's file; empty if it has none here.
func (p place) file() string { return p.fileOf(p.level) }

func (p place) fileOf(l config.Level) string {
	switch {
	case l == config.Organisation:
		return p.files.Organisation
	case l == config.User && p.files.Named != "":
		return p.files.Named
	case l == config.User:
		return p.files.User
	case p.folder == "" || p.files.Named != "" && p.level != config.Project: // it is not read beside a named one
		return ""
	}
	return filepath.Join(p.folder, config.FileName)
}

// within is the folder that the file must lie in, whatever it links to.
func (p place) within() string {
	if p.level == config.Project {
		return p.folder
	}
	return ""
}

// read returns the file's text, and whether there is one. The project's is not followed where it is
// a link: it would not be read.
func (p place) read() (text []byte, there bool, err error) {
	text, _, err = hostfs.ReadRegular(p.file(), maxText, p.level != config.Project)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return text, err == nil, err
}

func valid(text []byte) bool { return utf8.Valid(text) }

// fixed says why the file cannot be changed, or nothing. problem is that of reading it.
func (p place) fixed(text []byte, problem error) string {
	if problem != nil {
		return problem.Error()
	}
	if !valid(text) {
		return p.file() + " is not UTF-8: it is not changed here"
	}
	// A rename puts the new text there, so the directory has to let us; the first that there is, if it has to be made.
	dir := p.file()
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for {
		dir = filepath.Dir(dir)
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
	}
	if err := mayWrite(dir); err != nil {
		return fmt.Sprintf("this user may not write in %s (%s)", dir, err)
	}
	return ""
}

// settings are what all levels together say.
type settings struct {
	set *config.Set
	// problems are those of the levels over the one that is changed.
	problems []string
}

// whole reads all levels, with the text in the place of the level's file; nil: as if it were not
// there. It fails for what is wrong with the text, or below it.
func (p place) whole(text []byte) (settings, error) {
	s := settings{set: config.New()}
	s.set.AdviseOn(p.files.User)
	for _, l := range []config.Level{config.Organisation, config.User, config.Project} {
		file := p.fileOf(l)
		var err error
		switch {
		case file == "":
		case l == p.level && text != nil:
			err = s.set.CheckText(file, text, l)
		case l == p.level:
		default:
			if err = s.set.Check(file, l); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
		if err != nil && l <= p.level {
			return s, err
		}
		if err != nil {
			s.problems = append(s.problems, fmt.Sprintf("the %s's file is then refused: %s", l, strings.ReplaceAll(strings.TrimPrefix(err.Error(), "configuration: "), "\n", "; ")))
		}
	}
	return s, nil
}

// effects are the settings that have another value then.
func (p place) effects(old []byte, there bool, next settings) []Effect {
	list := []Effect{}
	if !there {
		old = nil
	}
	now, err := p.whole(old)
	if err != nil {
		return list // what is there counts for nothing
	}
	after := next.set.Values()
	for i, b := range now.set.Values() {
		if a := after[i]; a.Text != b.Text {
			list = append(list, Effect{Key: b.Key, Before: b.Text, After: a.Text})
		}
	}
	return list
}

// mistakes are those that an error tells of.
func mistakes(err error) []Mistake {
	list := []Mistake{}
	for _, m := range config.Mistakes(err) {
		list = append(list, Mistake{m.Line, m.Column, strings.TrimPrefix(m.Err.Error(), "configuration: ")})
	}
	return list
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
