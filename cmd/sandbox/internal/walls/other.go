//go:build !linux

package walls

import (
	"log/slog"

	"github.com/codeagent/sandbox/actors/api"
)

// Restrain has nothing to do here.
func Restrain(*slog.Logger) {}

// filtered has nothing to do here.
type filtered struct{}

func (*filtered) lets(api.Config) error               { return nil }
func (*filtered) load(api.Config, bool, *slog.Logger) {}
