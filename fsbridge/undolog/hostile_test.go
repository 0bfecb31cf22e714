package undolog

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestSC02HostileJournal changes bytes of a journal, sums put right: whatever
// comes of it is an error or some change inside the folder, never a panic and
// never a change outside.
func TestSC02HostileJournal(t *testing.T) {
	base := testDir(t)
	outside := filepath.Join(base, "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	theirs := treesnap.MustTake(t, base)
	rng := rand.New(rand.NewPCG(1, 2))
	rounds := 150
	if undologtest.Plain {
		rounds = 30 // where each call is a message to wine's server
	}
	for i := range rounds {
		dir := filepath.Join(base, "w")
		w := newWorld(t, dir, Options{})
		w.step(func() {
			w.ok(w.mkdir("d"))
			w.ok(w.create("d/f", "one"))
			w.ok(w.create("g", "two"))
		})
		w.step(func() {
			w.ok(w.rename("d/f", "f", 0))
			w.ok(w.write("g", 0, "three"))
			w.ok(w.rmdir("d"))
			w.ok(w.mkdir("e"))
		})
		journal := dir + "/undo/steps/2/journal"
		b, err := os.ReadFile(journal)
		w.ok(err)
		for range 1 + i%3 {
			mutate(rng, b)
		}
		w.ok(os.WriteFile(journal, b, 0o600))
		_, err = w.log.Undo(context.Background(), UndoOptions{Force: i%2 == 0})
		if err != nil { // an interrupted one is gone on with, and may fail again
			_, _ = w.log.Recover(context.Background())
		}
		w.Forget()
		w.close()
		removeForTest(dir)
		got := treesnap.MustTake(t, base)
		got.Entries["."] = theirs.Entries["."]
		treesnap.Same(t, "outside", theirs, got)
	}
}

// mutate changes one byte of one record and puts its sum right.
func mutate(rng *rand.Rand, b []byte) {
	var records [][]byte
	for off := len(format.JournalMagic); off+format.RecordHeaderSize < len(b); {
		n := int(binary.LittleEndian.Uint32(b[off:]))
		records = append(records, b[off:off+format.RecordHeaderSize+n])
		off += format.RecordHeaderSize + n
	}
	r := records[1+rng.IntN(len(records)-1)]
	body := r[format.RecordHeaderSize:]
	body[rng.IntN(len(body))] = []byte{0, 1, 2, 3, 4, 5, '/', '.', 0x7f, 0xff, byte(rng.Uint32())}[rng.IntN(11)]
	format.EndRecord(r)
}
