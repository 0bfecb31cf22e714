package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
)

// everywhere are keys of those tables whose values work in each setup, whatever it is: no feature has them.
var everywhere = []string{}

// TestEachKeyIsAFeature: what an isolation or a bridge decides about is in the table of features, by its own flag, with values that there are.
func TestEachKeyIsAFeature(t *testing.T) {
	keys, wished := Keys(), map[string]string{}
	for _, f := range hypervisor.Features() {
		for _, w := range f.Wishes {
			k := find(keys, w.Key)
			if k == nil {
				t.Errorf("%s: there is no key %s", f.Name, w.Key)
				continue
			}
			if k.Flag != w.Flag {
				t.Errorf("%s: the flag of %s is %q, not %q", f.Name, w.Key, k.Flag, w.Flag)
			}
			for _, v := range w.Values {
				if !slices.Contains(k.Enum, v) {
					t.Errorf("%s: %s cannot be %q", f.Name, w.Key, v)
				}
			}
			wished[w.Key] = f.Name
		}
	}
	for _, k := range keys {
		table, _, _ := strings.Cut(k.Name, ".")
		about := slices.Contains([]string{"jail", "places", "limits", "network", "vm", "bridge"}, table)
		if about && wished[k.Name] == "" && !slices.Contains(everywhere, k.Name) {
			t.Errorf("%s is of no feature: say in hypervisor.Features where it can be had", k.Name)
		}
	}
}

// TestAsks: who asks for what, and what it is called.
func TestAsks(t *testing.T) {
	s, from := must(t, "locked = ['jail.debug']\njail.debug = true", "jail.devices = ['kvm']\nplaces.caches = 'overlay'\nnetwork.allow = ['a.example']\nlimits.cpus = '0'")
	for flag, value := range map[string]string{"mode": "dynamic", "memory": "2GiB", "allow-host": "b.example"} {
		if err := s.SetFlag(flag, []string{value}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SetFor("rw", []string{drive + "/srv"}, "profile"); err != nil {
		t.Fatal(err)
	}
	if err := s.SetRequest("network.policy", "allowlist"); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, a := range s.Asks() {
		if a.By != hypervisor.ByDefault {
			got[a.Feature] = fmt.Sprintf("%s|%s|%d|%t", a.Said, a.Drop, a.By, a.Usual)
		}
	}
	want := map[string]string{
		"debug": "jail.debug (" + from.Organisation + ":2)|jail.debug|4|false", "device": "jail.devices (" + from.User + ":1)|jail.devices|1|false",
		"cache overlays": "places.caches overlay (" + from.User + ":2)|places.caches|1|true", "dynamic": "--mode dynamic|--mode dynamic|3|false",
		"machine": "--memory|--memory|3|false", "writable places": "--profile (places.rw)|--profile|3|false",
		"network policy": "network_policy allowlist||2|false", "allowed hosts": "--allow-host|--allow-host|3|false",
	}
	for feature, w := range want {
		if got[feature] != w {
			t.Errorf("%s: %q, want %q", feature, got[feature], w)
		}
		delete(got, feature)
	}
	if len(got) > 0 {
		t.Errorf("nobody asks for %v", got)
	}
}

// TestWithout: keys that are left out ask for nothing, and the configuration that they are left out of stays.
func TestWithout(t *testing.T) {
	s := New()
	for flag, value := range map[string]string{"mode": "dynamic", "device": "kvm", "debug": "true", "limit-pids": "7"} {
		if err := s.SetFlag(flag, []string{value}); err != nil {
			t.Fatal(err)
		}
	}
	w := s.Without("jail.mode", "jail.devices", "jail.debug", "limits.pids", "no.such")
	if w.Jail.Mode != "static" || len(w.Jail.Devices) > 0 || w.Jail.Debug || w.Limits.PIDs != 0 || w.Origin("jail.mode")[0].Level != FromDefault {
		t.Errorf("%+v %+v", w.Jail, w.Limits)
	}
	if s.Jail.Mode != "dynamic" || s.Limits.PIDs != 7 || s.Origin("jail.mode")[0].Level != Flag || s.Without() != s {
		t.Errorf("%+v %+v", s.Jail, s.Limits)
	}
}

// TestNoLimitOfProcesses: -1 lifts the limit of processes, which has a default; no other whole number is negative.
func TestNoLimitOfProcesses(t *testing.T) {
	s, _ := must(t, "", "limits.pids = -1")
	if err := s.SetFlag("limit-pids", []string{"-1"}); err != nil || s.Limits.PIDs != -1 {
		t.Errorf("%v, %d", err, s.Limits.PIDs)
	}
	for _, a := range s.Asks() {
		if a.Key == "limits.pids" {
			t.Errorf("no limit is asked for: %+v", a)
		}
	}
	if err := s.SetFlag("safeguard-deletes", []string{"-1"}); err == nil || !strings.Contains(err.Error(), "out of range") {
		t.Error(err)
	}
}
