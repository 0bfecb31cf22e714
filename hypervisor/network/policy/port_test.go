package policy

import (
	"errors"
	"testing"

	"github.com/codeagent/sandbox/hypervisor/network/window"
)

func TestParsePort(t *testing.T) {
	for text, want := range map[string]string{
		"80":                "80",
		"5173:5173":         "127.0.0.1:5173:5173",
		"8080:80":           "127.0.0.1:8080:80",
		"0.0.0.0:8080:80":   "0.0.0.0:8080:80",
		"[::1]:8080:80":     "[::1]:8080:80",
		"192.0.2.1:1:65535": "192.0.2.1:1:65535",
	} {
		if p, err := ParsePort(text); err != nil || p.String() != want {
			t.Errorf("%s: %v, %v", text, p, err)
		}
	}
	for _, text := range []string{"", "80-90", "0", ":80", "80:", "0:80", "80:0", "80:65536", "80-90:80", "::1:80:80", "[127.0.0.1]:80:80", "localhost:80:80", "a:b", "1:2:3:4"} {
		if p, err := ParsePort(text); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	}
	if _, err := ParsePorts([]string{"80:1", "80:2"}); !errors.Is(err, ErrSyntax) {
		t.Errorf("twice: %v", err)
	}
	if err := (Network{Publish: []string{"80:1", "80:2"}}).Check(); !errors.Is(err, ErrSyntax) {
		t.Errorf("published twice, in a network: %v", err)
	}
	if err := (Network{Publish: []string{"80"}}).Check(); !errors.Is(err, ErrSyntax) {
		t.Errorf("published nowhere: %v", err)
	}
	if err := (Network{Publish: []string{"80"}, Settings: window.Settings{Strategy: window.RewirePort}}).Check(); err != nil {
		t.Errorf("published where the window says: %v", err)
	}
	if _, err := ParsePorts([]string{"80", "80"}); !errors.Is(err, ErrSyntax) {
		t.Errorf("twice, without a place: %v", err)
	}
	if p, err := ParsePorts([]string{"80:1", "[::1]:80:1", "81:1"}); err != nil || len(p) != 3 {
		t.Errorf("%v, %v", p, err)
	}
}
