package serve

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/web"
)

// TestConceal: no sandbox sees the others, or the server's secrets.
func TestConceal(t *testing.T) {
	s := &e2bServer{root: "/state/e2b", Options: Options{HTTP: web.Settings{Keys: "keys", CertificateKey: "/etc/key.pem"}}}
	cfg := api.Config{}
	cfg.Hide = []string{"/state"}
	if err := s.conceal(&cfg); err != nil {
		t.Fatal(err)
	}
	keys, err := filepath.Abs("keys")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"/state", keys, "/etc/key.pem"}; !slices.Equal(cfg.Hide, want) {
		t.Errorf("%q, want %q", cfg.Hide, want)
	}
}

// TestPlain: commands have nothing of who runs the server.
func TestPlain(t *testing.T) {
	got := plain([]string{"PATH=/bin", "LC_ALL=C", "AWS_PROFILE=mine", "HOME=/root", "DATABASE_URL=x", "TZ=UTC"})
	if want := []string{"PATH=/bin", "LC_ALL=C", "TZ=UTC"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
