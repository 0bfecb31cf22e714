//go:build !linux

package launch

import (
	"log/slog"

	"github.com/codeagent/sandbox/actors/api"
)

// Restrain has nothing to do here.
func Restrain(*slog.Logger) {}

// FilterCalls has nothing to do here.
func FilterCalls(api.Config, bool, *slog.Logger) {}
