//go:build inguest

package inside

import (
	"io"
	"net/http"
	"os"
	"testing"
)

// TestFetch gets $URL, and trusts whom the guest's programs trust.
func TestFetch(t *testing.T) {
	r, err := http.Get(os.Getenv("URL"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("answer: %s", text)
}
