//go:build !linux && !darwin

package launch

import (
	"context"
	"log/slog"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
)

// confined has nothing to do here.
type confined struct{ scout *asker }

func (*confined) before(*api.Config, []string, *slog.Logger)                              {}
func (*confined) up(context.Context, *actors.Session, api.Config, []string, *slog.Logger) {}
