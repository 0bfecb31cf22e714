package qemu

import (
	"context"
	"os/exec"
	"strings"
	"testing"
)

// TestW14ProbeProgram: what other systems' probes have a machine do is done, and what does nothing is found out. The emulator runs the same
// instructions as an accelerator does.
func TestW14ProbeProgram(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		program, err := exec.LookPath(programName(arch))
		if err != nil {
			t.Skipf("no %s: apt install qemu-system-x86 qemu-system-arm", programName(arch))
		}
		if err := runsInQEMU(context.Background(), program, arch, "tcg"); err != nil {
			t.Errorf("%s: %v", arch, err)
		}
		other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[arch]
		if err := runsInQEMU(context.Background(), program, other, "tcg"); err == nil {
			t.Errorf("QEMU for %s has run the instructions of %s", arch, other)
		}
		if err := runsInQEMU(context.Background(), program, arch, "whpx"); err == nil || !strings.Contains(err.Error(), "whpx") {
			t.Errorf("%s with an accelerator that is not here: %v", arch, err)
		}
	}
}
