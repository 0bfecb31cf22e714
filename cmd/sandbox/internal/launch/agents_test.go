package launch

import (
	"maps"
	"testing"
)

// TestKeyNames: each key has the name of its first user that is not revoked, and so do its subkeys.
func TestKeyNames(t *testing.T) {
	list := "tru::1:1:0:3:1:5\npub:u:255:22:ED5B:1:::u:::scSC:::::ed25519:::0:\nfpr:::::::::6447:\ngrp:::::::::aa:\nuid:r::::1::4F::Old::::::::::0:\nuid:u::::1::4F::Me\\x3a\\x1b \xff <me@x>::::::::::0:\n" +
		"uid:u::::1::4F::Second::::::::::0:\nsub:u:255:18:1:1::::::e:::::cv25519::\ngrp:::::::::BB:\npub:-:1\ngrp:::::::::CC:\nuid\n"
	want := map[string]string{"AA": "Me:\x1b ? <me@x>", "BB": "Me:\x1b ? <me@x>", "CC": ""}
	if got := keyNames(list); !maps.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := gpgDirs("homedir:/a%3ab\nagent-socket:/c\nbad:%zz\n"); got["homedir"] != "/a:b" || got["agent-socket"] != "/c" || len(got) != 2 {
		t.Errorf("%q", got)
	}
}
