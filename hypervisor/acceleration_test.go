package hypervisor_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
)

// TestAccelerations: each system has its own acceleration, and is refused those of others with the name of who has them; all emulate.
func TestAccelerations(t *testing.T) {
	if got, want := hypervisor.AccelerationWords(), []string{"auto", "kvm", "hvf", "whpx", "tcg"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, system := range []string{"linux", "darwin", "windows", "plan9"} {
		for _, word := range hypervisor.AccelerationWords() {
			err := hypervisor.CheckAcceleration(word, system)
			i := slices.IndexFunc(hypervisor.Accelerations(), func(a hypervisor.Acceleration) bool { return a.Word == word })
			if i < 0 || hypervisor.Accelerations()[i].System == system {
				if err != nil {
					t.Errorf("%s on %s: %v", word, system, err)
				}
				continue
			}
			if err == nil || !errors.Is(err, hypervisor.ErrUnavailable) || !strings.Contains(err.Error(), hypervisor.Accelerations()[i].On) || !strings.Contains(err.Error(), "here there is auto") {
				t.Errorf("%s on %s: %v", word, system, err)
			}
		}
		if err := hypervisor.CheckAcceleration("x", system); err == nil || !strings.Contains(err.Error(), `no vm.acceleration "x"`) {
			t.Errorf("%v", err)
		}
	}
}
