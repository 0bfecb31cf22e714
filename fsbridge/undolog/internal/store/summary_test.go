package store

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func FuzzSummary(f *testing.F) {
	e := format.Entry{Seq: 1, StepID: -3, Type: format.TypeAmbient, AffectedPaths: []string{"x"}}
	b, err := os.ReadFile(filepath.Join("testdata", "v1", "paths"))
	if err != nil && !*update {
		f.Fatal(err)
	}
	f.Add([]byte(fmt.Sprintf(`{"seq":%d,"step_id":%d,"type":"ambient"}`, e.Seq, e.StepID)), b)
	f.Add([]byte(`{"seq":18446744073709551615,"step_id":1}`), []byte{0x28, 0xb5, 0x2f, 0xfd})
	f.Fuzz(func(t *testing.T, summary, paths []byte) {
		if e, err := decodeSummary(summary); err == nil && (e.StepID == 0 || e.AffectedCount < 0) {
			t.Fatalf("%+v", e)
		}
		n := 0
		_ = decodePaths(bytes.NewReader(paths), func(a format.Affected) error {
			if n++; n > 100_000 {
				return errors.New("enough")
			}
			if _, err := hostfs.SplitPath(a.Path); err != nil {
				t.Fatalf("path %q", a.Path)
			}
			return nil
		})
	})
}

func TestGoldenPaths(t *testing.T) {
	golden := filepath.Join("testdata", "v1", "paths")
	want := []format.Affected{{Path: "a\n\xff/b", ExistedBefore: true, ExistsAfter: false, Change: "deleted", Type: "file"}, {Path: "c", ExistedBefore: false, ExistsAfter: true, Change: "created", Type: "dir"}}
	if *update {
		dir, err := hostfs.OpenRoot(filepath.Dir(golden))
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		if err := WritePaths(dir.FD(), want); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	var got []format.Affected
	if err := decodePaths(bytes.NewReader(b), func(a format.Affected) error { got = append(got, a); return nil }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestPathsOfDeepTrees: a path as long as trees may be deep is read back.
func TestPathsOfDeepTrees(t *testing.T) {
	want := format.Affected{Path: strings.Repeat(strings.Repeat("d", 255)+"/", 15_999) + "f", ExistsAfter: true, Change: "created", Type: "file"}
	dir, err := hostfs.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := WritePaths(dir.FD(), []format.Affected{want}); err != nil {
		t.Fatal(err)
	}
	var got []format.Affected
	if err := ReadPaths(dir.FD(), func(a format.Affected) error { got = append(got, a); return nil }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []format.Affected{want}) {
		t.Errorf("%d paths were read", len(got))
	}
}

// TestSummaryFormat holds what is on disk: a summary of a step with one command is as
// it was before steps could have several, and both are read and written as they are.
func TestSummaryFormat(t *testing.T) {
	for name, count := range map[string]int{"summary.json": 0, "summary-several.json": 300, "summary-group.json": 0} {
		b, err := os.ReadFile(filepath.Join("testdata", "v1", name))
		if err != nil {
			t.Fatal(err)
		}
		e, err := decodeSummary(b)
		if err != nil || e.CommandCount != count || e.Command != "make" {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
		dir, err := hostfs.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		if err := WriteSummary(dir.FD(), e); err != nil {
			t.Fatal(err)
		}
		if again, err := hostfs.ReadSmall(dir.FD(), "summary.json", maxSummary); err != nil || string(again) != string(b) {
			t.Errorf("%s: written as %s, %v", name, again, err)
		}
	}
	for _, bad := range []string{`"command_count":-1`, `"commands":[` + strings.Repeat("{},", format.MaxStepCommands) + `{}]`} {
		if _, err := decodeSummary([]byte(`{"seq":1,"step_id":1,"type":"command",` + bad + `}`)); err == nil {
			t.Errorf("%.40s was taken", bad)
		}
	}
}
