package control

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// The shim's whole environment: what it has to know, one processor, and GORACE only if this process has it.
func TestShimEnviron(t *testing.T) {
	for _, race := range []string{"", "atexit_sleep_ms=10"} {
		t.Setenv("GORACE", race)
		env, err := ShimConfig{Umask: 0o27, Confined: true}.Environ()
		if err != nil {
			t.Fatal(err)
		}
		text, found := strings.CutPrefix(env[0], ShimVariable+"=")
		var cfg ShimConfig
		if err := json.Unmarshal([]byte(text), &cfg); !found || err != nil || cfg.Umask != 0o27 || !cfg.Confined {
			t.Errorf("%s: %v, %+v", env[0], err, cfg)
		}
		want := []string{"GOMAXPROCS=1"}
		if race != "" {
			want = append(want, "GORACE="+race)
		}
		if !slices.Equal(env[1:], want) {
			t.Errorf("GORACE %q: %q, want %q", race, env[1:], want)
		}
	}
}
