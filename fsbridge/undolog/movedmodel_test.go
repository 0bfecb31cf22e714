package undolog

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestMovedModel lets a step change files in some directories at random, and somebody outside move the directories meanwhile. An undo
// by force gives each file back that was there, in its directory, wherever that is; a redo brings back what the undo has replaced.
func TestMovedModel(t *testing.T) {
	tried := require.OneIn(t, 3)
	for seed := range uint64(40) {
		if !tried() {
			continue
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			require.Thin(t, 3)
			r := rand.New(rand.NewPCG(seed, 1))
			s := movedSession(t)
			for _, p := range []string{"e/f", "e/g", "e/sub/f", "d/sub/g"} {
				s.outside(p, "before")
			}
			at := map[string]string{"d": "d", "e": "e", "d/sub": "d/sub", "e/sub": "e/sub", "n": "n"} // where they are now
			before := treesnap.Contents(s.t, s.work)
			s.step(func(a *undologtest.Applier) error {
				moves := 1 + r.IntN(2)
				for i := range 24 {
					if err := changeAtRandom(r, s, at, i); err != nil {
						return err
					}
					if moves > 0 && r.IntN(10) == 0 || i > 20 && moves > 0 {
						moves--
						moveAtRandom(r, s, at, i)
					}
				}
				return nil
			})
			after := treesnap.Contents(s.t, s.work)
			want := map[string]string{}
			for p, c := range before {
				want[placeOf(at, p)] = c
			}
			for round := range 2 {
				res, err := s.log.Undo(t.Context(), UndoOptions{Force: true})
				if err != nil || res.LeftCount > 0 {
					t.Fatalf("undo: %v, left %+v", err, res)
				}
				s.want(fmt.Sprintf("undone, round %d", round), want)
				if _, err := s.log.Redo(t.Context(), UndoOptions{Force: true}); err != nil {
					t.Fatal(err)
				}
				s.want(fmt.Sprintf("done again, round %d", round), after)
			}
		})
	}
}

// placeOf is where what had the path p is, if only directories were moved.
func placeOf(at map[string]string, p string) string {
	best := ""
	for dir := range at {
		if (p == dir || strings.HasPrefix(p, dir+"/")) && len(dir) > len(best) {
			best = dir
		}
	}
	if best == "" {
		return p
	}
	return at[best] + strings.TrimPrefix(p, best)
}

// changeAtRandom changes a file in a directory that was there before, or makes one.
func changeAtRandom(r *rand.Rand, s *session, at map[string]string, i int) error {
	dirs := slices.Sorted(maps.Keys(at))
	dir, other := at[dirs[r.IntN(len(dirs))]], at[dirs[r.IntN(len(dirs))]]
	var files []string
	for p, c := range treesnap.Contents(s.t, s.work) {
		if strings.HasPrefix(p, dir+"/") && c != "/" {
			files = append(files, p)
		}
	}
	slices.Sort(files)
	made := fmt.Sprintf("%s/made%d", dir, i)
	if len(files) == 0 {
		return writeFileVia(s.a, made, "made")
	}
	f := files[r.IntN(len(files))]
	switch r.IntN(6) {
	case 0:
		return s.a.Unlink(f)
	case 1:
		return s.a.Rename(f, fmt.Sprintf("%s/renamed%d", other, i), 0)
	case 2:
		return errors.Join(s.a.Mkdir(made, 0o755), writeFileVia(s.a, made+"/f", "made"))
	case 3:
		return writeFileVia(s.a, made, "made")
	}
	return s.a.WriteAt(f, []byte(fmt.Sprintf("after %d", i)), 0)
}

// moveAtRandom moves a directory from outside, to the top or into another.
func moveAtRandom(r *rand.Rand, s *session, at map[string]string, i int) {
	dirs := slices.Sorted(maps.Keys(at))
	dir, into := dirs[r.IntN(len(dirs))], dirs[r.IntN(len(dirs))]
	to := fmt.Sprintf("moved%d", i)
	if from := at[dir]; r.IntN(2) == 0 && at[into] != from && !strings.HasPrefix(at[into], from+"/") {
		to = at[into] + "/" + to
	}
	from := at[dir]
	s.move(from, to)
	for d, p := range at {
		if p == from || strings.HasPrefix(p, from+"/") {
			at[d] = to + strings.TrimPrefix(p, from)
		}
	}
}
