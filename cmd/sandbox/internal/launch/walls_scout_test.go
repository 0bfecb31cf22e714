package launch

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestScoutRemoves: a scout removes what its arguments name, and nothing else.
func TestScoutRemoves(t *testing.T) {
	dir := t.TempDir()
	named, other := filepath.Join(dir, "named"), filepath.Join(dir, "other")
	for _, path := range []string{named, other} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		path    string
		removed bool
	}{{other, false}, {named, true}, {named, false}} {
		got := question{Remove: c.path}.answer([]string{named})
		if (got.Err == "") != c.removed {
			t.Errorf("%s: %q", c.path, got.Err)
		}
	}
	if _, err := os.Lstat(other); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(named); err == nil {
		t.Error("it is still there")
	}
}

// TestAsker: the answers are to the questions, and an error says why.
func TestAsker(t *testing.T) {
	var asks, answers bytes.Buffer
	a := &asker{asks: json.NewEncoder(&asks), answers: json.NewDecoder(&answers)}
	answers.WriteString(`{}` + "\n" + `{"err":"no"}` + "\n")
	if err := a.remove("/x"); err != nil {
		t.Error(err)
	}
	if err := a.remove("/y"); err == nil || err.Error() != "no" {
		t.Error(err)
	}
	if err := a.remove("/z"); err == nil { // it has ended
		t.Error("no error")
	}
	if want := `{"remove":"/x"}` + "\n" + `{"remove":"/y"}` + "\n" + `{"remove":"/z"}` + "\n"; asks.String() != want {
		t.Errorf("asked: %s", asks.String())
	}
}
