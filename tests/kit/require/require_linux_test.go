package require_test

import (
	"os"
	"testing"

	"github.com/codeagent/sandbox/tests/cmd/asuser/user"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// Root gets an ordinary user's process in which /dev/fuse opens; an ordinary
// user stays as it is.
func TestAsUser(t *testing.T) {
	if !require.AsUser(t) {
		return
	}
	if os.Geteuid() == 0 || os.Getegid() == 0 {
		t.Errorf("still root: uid %d, gid %d", os.Geteuid(), os.Getegid())
	}
	if os.Getenv(user.PassEnv) == "" {
		t.Skip("not started by root: nothing was prepared")
	}
	require.FUSE(t)
	require.UserNamespaces(t)
	if home := os.Getenv("HOME"); home == "" || home == "/root" {
		t.Errorf("HOME is %q", home)
	}
	if err := os.WriteFile(t.TempDir()+"/probe", nil, 0o600); err != nil {
		t.Error(err)
	}
	if _, err := os.ReadFile("require_linux_test.go"); err != nil {
		t.Errorf("the module's source: %v", err)
	}
}

func TestImage(t *testing.T) {
	mount := require.Image(t, "ext4", 32<<20)
	require.Xattrs(t, mount)
}
