package hypervisor

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestFeaturesAreWellFormed: names are unique, each feature is in some setup and says why it is not in another, and nothing is asked for in two ways at once.
func TestFeaturesAreWellFormed(t *testing.T) {
	if n := len(Setups()); n != setups {
		t.Fatalf("%d setups", n)
	}
	names, wishes := map[string]bool{}, map[string]bool{}
	for _, f := range Features() {
		if f.Name == "" || names[f.Name] || f.What == "" {
			t.Errorf("%q: %q", f.Name, f.What)
		}
		names[f.Name] = true
		has := 0
		for i, a := range f.On {
			if a.Has {
				has++
			}
			if a.Has && a.Laxer || !a.Has && a.Text == "" {
				t.Errorf("%s in %v: %+v", f.Name, Setups()[i], a)
			}
		}
		if has == 0 {
			t.Errorf("%s is nowhere", f.Name)
		}
		for _, w := range f.Wishes {
			for _, v := range append(slices.Clone(w.Values), "")[:max(len(w.Values), 1)] {
				if key := w.Key + "=" + v; wishes[key] {
					t.Errorf("%s is two features", key)
				} else {
					wishes[key] = true
				}
			}
		}
	}
}

// asked makes an ask by a flag.
func asked(feature, said string) Ask {
	return Ask{Feature: feature, Said: said, Drop: said, By: ByFlag}
}

// TestRefusals: what is refused says what could have it.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		isolation string
		asks      []Ask
		want      string
	}{
		{"none", []Ask{asked("containers", "--containers")}, "--containers needs --isolation jail, and here it would be none: nothing keeps commands from what their user may do; leave out --containers, or use --isolation jail"},
		{"jail", []Ask{asked("mediated", "--bridge mediated"), asked("containers", "--containers")},
			"--containers needs --bridge fuse, and here it would be mediated: Landlock, which the mediated bridge needs, denies every mount; leave out --containers, or take --bridge fuse"},
		{"landlock", []Ask{asked("mediated", "--bridge mediated"), asked("containers", "--containers")},
			"--containers needs --isolation jail with --bridge fuse, and here it would be landlock: Landlock denies every mount; leave out --containers, or use --isolation jail with --bridge fuse"},
		{"jail", []Ask{asked("machine", "--memory")}, "--memory is about a virtual machine, and here it would be jail: add --isolation vm, or leave it out"},
		{"vm", []Ask{asked("9p", "--fs-backend 9p"), asked("virtiofs", "--fs-backend virtiofs")},
			"--fs-backend virtiofs needs --fs-backend virtiofs, and here it would be 9p: one machine has one bridge; leave out --fs-backend virtiofs, or take --fs-backend virtiofs"},
		{"none", []Ask{asked("no network", "--network disabled")},
			"--network disabled needs --isolation jail, landlock, or vm, and here it would be none: it leaves commands the host's network; leave out --network disabled, or use --isolation jail, landlock, or vm"},
	} {
		_, err := Choose(c.isolation, c.asks)
		if refusal := (*Refusal)(nil); !errors.As(err, &refusal) || err.Error() != c.want {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
}

// TestWhoAsks: the same wish is refused, left out with a note, or left out in silence, according to who has it and to what commands could do without it.
func TestWhoAsks(t *testing.T) {
	refused, told, silent := "refused", "told", "silent"
	for _, c := range []struct {
		isolation, feature string
		want               map[Asker]string
	}{
		{"none", "containers", map[Asker]string{ByDefault: silent, ByFile: told, ByRequest: told, ByFlag: refused, ByLock: refused}},
		{"none", "dynamic", map[Asker]string{ByDefault: silent, ByFile: refused, ByRequest: refused, ByFlag: refused, ByLock: refused}},
		{"jail", "machine", map[Asker]string{ByDefault: silent, ByFile: silent, ByRequest: told, ByFlag: refused}},
		{"none", "allowed hosts", map[Asker]string{ByDefault: silent, ByFile: silent, ByRequest: refused, ByFlag: refused}},
	} {
		for by, want := range c.want {
			got := refused
			if left, err := Choose(c.isolation, []Ask{{Feature: c.feature, Said: "x", By: by}}); err == nil {
				if len(left.Left) != 1 || len(left.Setups) == 0 {
					t.Fatalf("%+v", left)
				}
				if got = told; left.Left[0].Silent {
					got = silent
				}
			}
			if got != want {
				t.Errorf("%s with %s, asked by %d: %s, want %s", c.feature, c.isolation, by, got, want)
			}
		}
	}
	usual, err := Choose("vm", []Ask{{Feature: "process limit", Said: "x", By: ByFile, Usual: true}})
	if err != nil || len(usual.Left) != 1 || !usual.Left[0].Silent {
		t.Errorf("what a file says as it is by default: %+v, %v", usual, err)
	}
}

// TestStrongestAskChooses: a flag decides about the bridge before a file does, and a default only if nobody else does.
func TestStrongestAskChooses(t *testing.T) {
	c, err := Choose("jail", []Ask{
		{Feature: "mediated", Said: "bridge.kind mediated (f:1)", By: ByFile}, asked("posix metadata", "--posix-metadata"),
	})
	if err != nil || !slices.Equal(c.Setups, []Setup{{"jail", BridgeFUSE}}) || len(c.Left) != 1 || !strings.HasPrefix(c.Left[0].String(), "bridge.kind mediated (f:1) has no effect") {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := Choose("vm", []Ask{{Feature: "virtiofs", By: ByDefault}, asked("9p", "--fs-backend 9p")}); err != nil || !slices.Equal(c.Setups, []Setup{{"vm", Bridge9P}}) {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := Choose("jail", nil); err != nil || len(c.Setups) != 2 {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestUselessWithoutAnother: hosts that a policy allows are left out with the policy, and said to be; a flag is not left out.
func TestUselessWithoutAnother(t *testing.T) {
	policy := Ask{Feature: "open network", Key: "network.policy", Said: "network_policy open", By: ByRequest}
	hosts := Ask{Feature: "allowed hosts", Key: "network.allow", Said: "network_allow", By: ByRequest}
	c, err := Choose("landlock", []Ask{hosts, policy})
	if err != nil || len(c.Left) != 2 || c.Left[1].Key != "network.allow" || c.Left[1].Silent || c.Left[1].Why != c.Left[0].Why {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := Choose("jail", []Ask{hosts, policy}); err != nil || len(c.Left) != 0 {
		t.Errorf("where there is a network: %+v, %v", c, err)
	}
	hosts.By = ByFlag
	if c, err := Choose("landlock", []Ask{hosts, policy}); err != nil || len(c.Left) != 1 {
		t.Errorf("by a flag: %+v, %v", c, err)
	}
}

// TestInstead: it advises flags that lead to what is lacking, and never to no isolation at all.
func TestInstead(t *testing.T) {
	for _, c := range [][3]string{
		{"landlock", "network policy", "--isolation jail"}, {"landlock", "own listeners", "--isolation jail with --bridge fuse"}, {"jail", "own listeners", "--bridge fuse"},
		{"jail", "pause", "--isolation vm"}, {"jail", "9p", "--isolation vm with --fs-backend 9p"}, {"jail", "no such feature", ""},
	} {
		if got := Instead(c[0], c[1]); got != c[2] {
			t.Errorf("%s for %s: %q", c[1], c[0], got)
		}
	}
}

// TestLacks: it knows isolations and features, and denies nothing of what it does not know.
func TestLacks(t *testing.T) {
	if why, lacks := Lacks("vm", "filter"); !lacks || !strings.HasPrefix(why, noFilter) {
		t.Errorf("%q, %t", why, lacks)
	}
	for _, c := range [][2]string{{"jail", "containers"}, {"landlock", "filter"}, {"jail", "no such feature"}, {"no such isolation", "lock"}} {
		if why, lacks := Lacks(c[0], c[1]); lacks || why != "" {
			t.Errorf("%v: %q", c, why)
		}
	}
}
