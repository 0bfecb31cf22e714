//go:build !linux

package launch

import (
	"log/slog"

	"github.com/codeagent/sandbox/actors/api"
)

// Restrain has nothing to do here.
func Restrain(*slog.Logger) {}

// filtered has nothing to do here.
type filtered struct{}

func (*filtered) lets(api.Config) error               { return nil }
func (*filtered) settled(api.Config) bool             { return true }
func (*filtered) load(api.Config, bool, *slog.Logger) {}

// confines is about processes that a session over STDIO has for its own, which there are not here.
func confines(api.Config) bool { return false }

func closeRest() {}
