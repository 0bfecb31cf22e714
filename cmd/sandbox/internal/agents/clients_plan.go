package agents

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/texts"
)

// ErrStale is a file that is not any more as it was when the preview was made.
var ErrStale = errors.New("it was changed since the preview")

// Step is what will happen to one file because of one part.
type Step struct {
	Part Part
	// Before and After are the file's texts; nil: there is no file.
	Before, After []byte
}

// Plan says what Add of each part in turn would do, or Remove if remove is set. It
// changes nothing. It fails where that would be refused.
func Plan(parts []Part, within string, remove bool) ([]Step, error) {
	texts := map[string][]byte{}    // of files that an earlier part changes
	copies := map[string][][]byte{} // that would be beside the file by then
	var steps []Step
	for _, p := range parts {
		real, err := target(p.File, within)
		if err != nil {
			return nil, &PartError{p, err}
		}
		before, known := texts[real]
		if !known {
			if before, err = present(real); err != nil {
				return nil, &PartError{p, err}
			}
		}
		var after []byte
		if remove {
			after, err = p.without(before, copies[real])
		} else {
			after, err = p.add(before)
		}
		if errors.As(err, &gone{}) {
			after, err = nil, nil
		}
		if err != nil {
			return nil, &PartError{p, described(real, err)}
		}
		texts[real] = after
		if before != nil {
			copies[real] = append(copies[real], before)
		}
		steps = append(steps, Step{p, before, after})
	}
	return steps, nil
}

// PartError says at which part it failed.
type PartError struct {
	Part Part
	Err  error
}

func (e *PartError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *PartError) Unwrap() error { return e.Err }

// present returns the text of a file, nil only if there is none.
func present(real string) ([]byte, error) {
	text, st, err := read(real)
	if st != nil && text == nil {
		text = []byte{}
	}
	return text, err
}

// Pinned is the step's part, which refuses with ErrStale a file that is not as the step
// found it.
func (s Step) Pinned() Part {
	p := s.Part
	p.pinned, p.expected = true, s.Before
	return p
}

// changed reports whether the step changes its file.
func (s Step) changed() bool {
	return (s.Before == nil) != (s.After == nil) || !bytes.Equal(s.Before, s.After)
}

// fresh refuses a text that is not the expected one.
func (p Part) fresh(text []byte) error {
	if p.pinned && !bytes.Equal(text, p.expected) {
		return ErrStale
	}
	return nil
}

// maxDiffBytes bounds the diff of one file in a preview.
const maxDiffBytes = 256 << 10

// Preview is what a plan does, for people and for programs.
type Preview struct {
	// Digest names just this: the files as they are, and as they would be.
	Digest  string        `json:"digest"`
	Changes []FilePreview `json:"changes"`
}

// FilePreview is what would become of one file.
type FilePreview struct {
	File string `json:"file"`
	// What of ours is put there, or taken out.
	What []string `json:"what"`
	// Change is "none", "create", "modify" or "delete".
	Change string `json:"change"`
	// Diff is a unified diff, and Cut says that its end is missing.
	Diff string `json:"diff,omitempty"`
	Cut  bool   `json:"cut,omitempty"`
}

// PreviewOf sums a plan up, by file.
func PreviewOf(steps []Step) (Preview, error) {
	out := Preview{Changes: []FilePreview{}}
	var whole []Step // of each file
	for _, s := range steps {
		at := slices.IndexFunc(whole, func(w Step) bool { return w.Part.File == s.Part.File })
		if at < 0 {
			at = len(whole)
			whole = append(whole, s)
			out.Changes = append(out.Changes, FilePreview{File: s.Part.File})
		}
		whole[at].After = s.After
		out.Changes[at].What = append(out.Changes[at].What, s.Part.What)
	}
	sum := sha256.New()
	for i, s := range whole {
		c := &out.Changes[i]
		c.Change = s.kind()
		if err := c.show(s); err != nil {
			return out, err
		}
		identity, err := json.Marshal([]any{c.File, c.Change, s.Before, s.After})
		if err != nil {
			return out, err
		}
		sum.Write(identity)
	}
	out.Digest = hex.EncodeToString(sum.Sum(nil))
	return out, nil
}

func (s Step) kind() string {
	switch {
	case !s.changed():
		return "none"
	case s.Before == nil:
		return "create"
	case s.After == nil:
		return "delete"
	}
	return "modify"
}

// show writes the diff.
func (c *FilePreview) show(s Step) error {
	if !s.changed() {
		return nil
	}
	name := "/" + strings.TrimPrefix(filepath.ToSlash(c.File), "/") // C:\x is a/C:/x
	from, to := "a"+name, "b"+name
	if s.Before == nil {
		from = ""
	}
	if s.After == nil {
		to = ""
	}
	var b bytes.Buffer
	if err := texts.Unified(&b, from, to, s.Before, s.After); err != nil {
		return err
	}
	text := b.Bytes()
	if len(text) > maxDiffBytes {
		text, c.Cut = text[:maxDiffBytes], true
	}
	c.Diff = string(bytes.ToValidUTF8(text, []byte("\ufffd")))
	return nil
}
