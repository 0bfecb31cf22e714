package stdio_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/actors/frontend/stdio"
)

var update = flag.Bool("update", false, "write the schemas and the transcripts anew")

// The committed schemas are those of the types.
func TestSchemasAreCurrent(t *testing.T) {
	all, err := stdio.Schemas(false)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for name, s := range all {
		b, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, '\n')
		path := filepath.Join("schema", name+".json")
		want[path] = true
		if *update {
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, b) {
			t.Errorf("%s is not current (%v): go test ./actors/frontend/stdio -run Schemas -update", path, err)
		}
	}
	files, _ := filepath.Glob("schema/*.json")
	for _, f := range files {
		if !want[f] {
			if *update {
				_ = os.Remove(f)
				continue
			}
			t.Errorf("%s describes no message", f)
		}
	}
}
