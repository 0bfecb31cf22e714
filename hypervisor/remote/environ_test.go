package remote_test

import (
	"slices"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/remote"
)

func TestEnviron(t *testing.T) {
	env := []string{"A=b=c", "SSH_AUTH_SOCK=/s", "SANDBOX=0", "TERM=old", "GONE=1", "HOME=/outside", "EMPTY=", "X=0"}
	keep := func(name, value string) (string, bool) {
		if name == "HOME" {
			value = "/inside"
		}
		return value, name != "GONE"
	}
	for _, c := range []struct {
		tty  *hypervisor.TTY
		want []string
	}{
		{nil, []string{"A=b=c", "SSH_AUTH_SOCK=/s", "TERM=old", "HOME=/inside", "EMPTY=", "SANDBOX=1", "X=1"}},
		{&hypervisor.TTY{}, []string{"A=b=c", "SSH_AUTH_SOCK=/s", "TERM=old", "HOME=/inside", "EMPTY=", "SANDBOX=1", "X=1"}},
		{&hypervisor.TTY{Term: "xterm"}, []string{"A=b=c", "SSH_AUTH_SOCK=/s", "HOME=/inside", "EMPTY=", "TERM=xterm", "SANDBOX=1", "X=1"}},
	} {
		if got := remote.Environ(env, c.tty, keep, "X=1"); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.tty, got, c.want)
		}
	}
}

func TestOurs(t *testing.T) {
	t.Setenv("SET", "here")
	t.Setenv("BLANK", "")
	got := remote.Ours(map[string]string{"SET": "default", "BLANK": "default", "NEITHER": ""})
	if want := []string{"BLANK=default", "SET=here"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
