package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/codeagent/sandbox/actors/frontend"
)

// Every error that frontends know is the same error on the other side of the
// socket, with its text.
func TestErrorsKeepTheirIdentity(t *testing.T) {
	for _, f := range frontend.Failures() {
		sent := fmt.Errorf("what was tried: %w", f.Err)
		b, err := json.Marshal(ToWire(sent))
		if err != nil {
			t.Fatal(err)
		}
		var wire Error
		if err := json.Unmarshal(b, &wire); err != nil {
			t.Fatal(err)
		}
		if got := fromWire(&wire); !errors.Is(got, f.Err) || got.Error() != sent.Error() {
			t.Errorf("%s: %q came over as %q (%T)", f.Name, sent, got, got)
		}
	}
}
