package files

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/texts"
)

// maxDiff bounds the diff that an edit returns, in bytes.
const maxDiff = 256 << 10

// Edit replaces Old, which must occur exactly once unless All is set.
type Edit struct {
	Old, New string
	All      bool
}

// EditOptions say what [Writer.Edit] shall do.
type EditOptions struct {
	Edits []Edit
	// DryRun makes the diff and changes nothing.
	DryRun bool
	// Admit is as in [WriteOptions].
	Admit func() error
}

// apply applies the edits in order to a content that is not changed itself.
func apply(content []byte, edits []Edit) (_ []byte, replaced int, err error) {
	if len(edits) == 0 {
		return nil, 0, fmt.Errorf("%w: there is none", ErrEdit)
	}
	for i, e := range edits {
		old := []byte(e.Old)
		found := 0
		if len(old) > 0 {
			found = bytes.Count(content, old)
		}
		which := ""
		if len(edits) > 1 {
			which = fmt.Sprintf("edit %d of %d: ", i+1, len(edits))
		}
		switch {
		case len(old) == 0:
			return nil, 0, fmt.Errorf("%w: %sthe text to replace is empty", ErrEdit, which)
		case found == 0:
			return nil, 0, fmt.Errorf("%w: %sthe text to replace does not occur%s", ErrEdit, which, hint(content, e.Old))
		case found > 1 && !e.All:
			return nil, 0, fmt.Errorf("%w: %sthe text to replace occurs %d times; add lines around it that make it unique, or replace all",
				ErrEdit, which, found)
		}
		content = bytes.ReplaceAll(content, old, []byte(e.New))
		if replaced += found; len(content) > MaxEditBytes {
			return nil, 0, fmt.Errorf("%w: the result has more than %d bytes", ErrTooLarge, MaxEditBytes)
		}
	}
	return content, replaced, nil
}

// hint tells of the usual reason why a text that somebody has read is not there.
func hint(content []byte, old string) string {
	if !strings.Contains(old, "\r") && bytes.Contains(bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n")), []byte(old)) {
		return ", but it would with CRLF line ends, which this file has"
	}
	return ""
}

// diff is unified and bounded.
func diff(path string, a, b []byte) string {
	var out bytes.Buffer
	_ = texts.Unified(&out, "a/"+path, "b/"+path, a, b) // a buffer takes everything
	if out.Len() <= maxDiff {
		return out.String()
	}
	cut := out.Bytes()[:maxDiff]
	cut = cut[:bytes.LastIndexByte(cut, '\n')+1]
	return string(cut) + fmt.Sprintf("\\ %d more bytes of this diff were left out\n", out.Len()-len(cut))
}
