package main

import (
	"strings"
	"testing"
)

func TestEnvironment(t *testing.T) {
	t.Setenv("MY_TOKEN", "t")
	ours := []string{"PATH=/bin", "MY_TOKEN=t", "AWS_PROFILE=p", "LANG=C", "SSH_AUTH_SOCK=/s", "Db_Password=x"}
	got, err := environment(ours, []string{"LANG=de", "EMPTY=", "MY_TOKEN", "UNSET_THING"})
	if err != nil {
		t.Fatal(err)
	}
	if s := strings.Join(got, " "); s != "PATH=/bin LANG=de EMPTY= MY_TOKEN=t" {
		t.Errorf("got %q", s)
	}
	// What a jail keeps outside is not given to a command without one either.
	for _, name := range []string{"CONTAINER_HOST", "DBUS_SYSTEM_BUS_ADDRESS", "SUDO_COMMAND", "DOCKER_HOST"} {
		if got, err := environment([]string{name + "=x"}, nil); err != nil || len(got) != 0 {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "=x", "A=\x00"} {
		if _, err := environment(nil, []string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
