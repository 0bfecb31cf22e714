package api

import (
	"os/exec"
	"strings"
	"testing"
)

// Who only asks a session links no bridge, no runtime and no actor library.
func TestLinksNoBridge(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/codeagent/sandbox/"
	allowed := []string{"actors/api", "fsbridge", "fsbridge/", "guest/nofile", "hypervisor", "hypervisor/network/policy", "hypervisor/network/window", "messages", "messages/lexical"}
	for p := range strings.FieldsSeq(string(out)) {
		ours, is := strings.CutPrefix(p, module)
		ok := !is
		for _, a := range allowed {
			ok = ok || ours == a || strings.HasSuffix(a, "/") && strings.HasPrefix(ours, a)
		}
		for _, never := range []string{"fsbridge/fuse", "fsbridge/virtiofs", "fsbridge/ninep", "fsbridge/posixmeta"} {
			ok = ok && ours != never && !strings.HasPrefix(ours, never+"/")
		}
		if !ok || strings.Contains(p, "asynkron") || strings.Contains(p, "go-fuse") {
			t.Errorf("%s is linked", p)
		}
	}
}
