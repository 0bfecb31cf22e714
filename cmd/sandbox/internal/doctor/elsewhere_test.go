package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
)

// accelerated is a machine of another system.
type accelerated struct {
	Machine
	accel      string
	why, fails error
}

func (m accelerated) Acceleration(context.Context) (string, error, error) {
	return m.accel, m.why, m.fails
}
func (m accelerated) Probe(context.Context) error { return m.fails }

// TestElsewhere: the doctor of another system says that it is an experiment, where that is described, and what machines lack.
func TestElsewhere(t *testing.T) {
	for _, goos := range []string{"darwin", "windows"} {
		for want, m := range map[string]accelerated{
			"ok WHPX works: virtual machines are accelerated|ok can be started": {accel: "whpx"},
			"warn no whpx: nothing: virtual machines are emulated, which is slow|ok can be started": {
				accel: "tcg", why: errors.New("no whpx: nothing; switch it on")},
			"warn not tried: there is no QEMU that works|fail there is no QEMU": {
				fails: fmt.Errorf("there is no QEMU; install it: %w", hypervisor.ErrUnavailable)},
		} {
			h := Host{Machine: func() (Machine, error) { return m, nil }}
			f := h.elsewhere(t.Context(), goos)
			if len(f) != 3 || f[0].State != "warn" || !strings.Contains(f[0].Detail, "on "+goos+" this is experimental") {
				t.Fatalf("%s: %+v", goos, f)
			}
			name := strings.TrimSuffix(f[0].Advice, " says what has been tried, and how")
			if _, err := os.Stat("../../../../" + name); err != nil {
				t.Error(err)
			}
			if got := f[1].State + " " + f[1].Detail + "|" + f[2].State + " " + f[2].Detail; !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s, want %s", goos, got, want)
			}
		}
	}
}
