package launch

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/hypervisor/seatbelt"
)

// confined is whether this process is behind a profile of Seatbelt.
type confined struct{ scout *asker }

func (*confined) before(*api.Config, []string, *slog.Logger) {}

// up puts this process behind the profile, when a session runs in a machine that has one.
func (*confined) up(ctx context.Context, s *actors.Session, cfg api.Config, reads []string, log *slog.Logger) {
	if r, ok := cfg.Runtime.(interface{ Seatbelt() bool }); !ok || !r.Seatbelt() {
		return
	}
	f, err := filesOf(ctx, s, cfg)
	for _, path := range reads {
		f.read = append(f.read, filepath.Dir(path)) // a file that takes another's place is another
	}
	text := ""
	if err == nil {
		text, err = serverProfile(f, cfg.RuntimeDir, cfg.Network.Mode != "" && cfg.Network.Mode != policy.Disabled).Text(filepath.EvalSymlinks)
	}
	if err == nil {
		err = seatbelt.Apply(text)
	}
	if err != nil {
		log.Warn("the supervisor is not behind Seatbelt", "component", "control", "err", err)
	}
}
