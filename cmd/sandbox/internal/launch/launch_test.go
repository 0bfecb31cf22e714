package launch

import (
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/messages"
)

// What the configuration says about the end of a step reaches the session.
func TestTiming(t *testing.T) {
	l := &Launcher{Conf: config.New()}
	want := api.Timing{QuiescenceIdle: messages.QuietTime, QuiescenceMax: messages.QuietMax, AmbientIdle: messages.AmbientIdle}
	if got := l.Config(nil).Timing; got != want {
		t.Errorf("nothing is set: %+v, want %+v", got, want)
	}
	for key, value := range map[string]string{"steps.quiet": "7ms", "steps.quiet_max": "8ms", "steps.ambient_idle": "9s"} {
		if err := l.Conf.SetRequest(key, value); err != nil {
			t.Fatal(err)
		}
	}
	want = api.Timing{QuiescenceIdle: 7 * time.Millisecond, QuiescenceMax: 8 * time.Millisecond, AmbientIdle: 9 * time.Second}
	if got := l.Config(nil).Timing; got != want {
		t.Errorf("all are set: %+v, want %+v", got, want)
	}
}
