package serve

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/actors"
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

// TestDirectory: where sandboxes are unless a flag says so, their folders may be working folders.
func TestDirectory(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	s := &e2bServer{}
	dir, err := s.directory()
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "sandboxes", "one", "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if d, err := actors.ValidateDirectory(api.Directory{Path: home}, ""); err != nil || d.Path != home {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestPlain: commands have nothing of who runs the server.
func TestPlain(t *testing.T) {
	got := plain([]string{"PATH=/bin", "LC_ALL=C", "AWS_PROFILE=mine", "HOME=/root", "DATABASE_URL=x", "TZ=UTC"})
	if want := []string{"PATH=/bin", "LC_ALL=C", "TZ=UTC"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
