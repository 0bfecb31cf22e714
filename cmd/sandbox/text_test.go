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
	for _, bad := range []string{"", "=x", "A=\x00"} {
		if _, err := environment(nil, []string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestShownNamesAreHarmless(t *testing.T) {
	for name, want := range map[string]string{
		"plain-ü.txt": "plain-ü.txt", "a\nb": `"a\nb"`, "\x1b[2J": `"\x1b[2J"`, "x\xff": `"x\xff"`, "with space": "with space",
	} {
		if got := shown(name); got != want {
			t.Errorf("%q shown as %s, want %s", name, got, want)
		}
	}
}
