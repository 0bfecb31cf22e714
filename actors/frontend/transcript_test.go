package frontend_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

type kept []undolog.CommandOutput

func (k *kept) KeepOutput(_ undolog.StepID, o undolog.CommandOutput) { *k = append(*k, o) }

// A transcript is the whole output, or its beginning and its end, however it was written.
func TestTranscript(t *testing.T) {
	all := []byte{}
	for i := 0; len(all) < 3*(undolog.OutputHead+undolog.OutputTail); i++ {
		all = fmt.Appendf(all, "line %d\n", i)
	}
	for _, size := range []int{1, undolog.OutputHead, undolog.OutputHead + 1, undolog.OutputHead + undolog.OutputTail, undolog.OutputHead + undolog.OutputTail + 1, len(all)} {
		for _, piece := range []int{1, 4095, 64 << 10, len(all)} {
			var tr frontend.Transcript
			for rest := all[:size]; len(rest) > 0; {
				n := min(piece, len(rest))
				if k, err := tr.Write(rest[:n]); k != n || err != nil {
					t.Fatalf("%d, %v", k, err)
				}
				rest = rest[n:]
			}
			var k kept
			tr.Keep(&k, 1, []string{"a b"}, time.Time{})
			if len(k) != 1 || k[0].Command != "'a b'" || k[0].Bytes != int64(size) {
				t.Fatalf("%d in pieces of %d: %d outputs", size, piece, len(k))
			}
			o, want := k[0], all[:size]
			if left := size - undolog.OutputHead - undolog.OutputTail; left > 0 {
				want = append(bytes.Clone(all[:undolog.OutputHead]), all[size-undolog.OutputTail:size]...)
				if o.LeftOut != int64(left) || o.Cut != undolog.OutputHead {
					t.Errorf("%d in pieces of %d: %d left out at %d", size, piece, o.LeftOut, o.Cut)
				}
			} else if o.LeftOut != 0 || o.Cut != 0 {
				t.Errorf("%d in pieces of %d: %d left out at %d", size, piece, o.LeftOut, o.Cut)
			}
			if !bytes.Equal(o.Data, want) {
				t.Errorf("%d in pieces of %d: %d bytes, not the %d that were written", size, piece, len(o.Data), len(want))
			}
		}
	}
	var tr frontend.Transcript
	var k kept
	tr.Keep(&k, 1, nil, time.Time{}) // nothing was written
	_, _ = tr.Write([]byte("x"))
	tr.Keep(&k, 0, nil, time.Time{}) // there was no step
	if len(k) != 0 {
		t.Errorf("%v", k)
	}
}
