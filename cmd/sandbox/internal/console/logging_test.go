package console

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lmittmann/tint"
)

// Whatever is logged, a terminal gets our colours and no other control
// characters.
func TestTextLogIsHarmless(t *testing.T) {
	for _, evil := range []string{"\x1b[31mred", "a b\x1b]0;title\a", `\x1b[2J a b`, "x\ny", "\u202eabc", "\x9b2J", "\x7f", "a\rb", "\u2028x"} {
		var out bytes.Buffer
		log := correlated(tint.NewTextHandler(&out, &tint.Options{TimeFormat: time.TimeOnly, ReplaceAttr: harmless}))
		log.With("with", evil).Info(evil, "string", evil, "error", errors.New(evil), "any", []string{evil}, slog.Group("g", "in", evil))
		text := out.String()
		for _, ours := range []string{"\x1b[0m", "\x1b[2m", "\x1b[22m", "\x1b[92m", "\x1b[2;91m", "\x1b[91m", "\x1b[93m"} {
			text = strings.ReplaceAll(text, ours, "")
		}
		text = strings.TrimSuffix(text, "\n")
		if i := strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x202e || r == 0x2028 }); i >= 0 {
			t.Errorf("%q: %q has a control character at %d", evil, text, i)
		}
	}
}
