//go:build !linux && !darwin

package launch

import (
	"context"
	"log/slog"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
)

// Restrain has nothing to do here.
func Restrain(*slog.Logger) {}

// filtered has nothing to do here.
type filtered struct{}

func (*filtered) lets(api.Config) error               { return nil }
func (*filtered) settled(api.Config) bool             { return true }
func (*filtered) load(api.Config, bool, *slog.Logger) {}

// confined has nothing to do here.
type confined struct{ scout *asker }

func (*confined) before(*api.Config, []string, *slog.Logger)                              {}
func (*confined) up(context.Context, *actors.Session, api.Config, []string, *slog.Logger) {}

func confines(api.Config) bool { return false }

func closeRest() {}
