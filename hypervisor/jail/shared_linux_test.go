package jail

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/filters"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// podConfig is that of a guest in this network namespace.
func podConfig(t *testing.T, m policy.Mode, rules ...string) hypervisor.Config {
	t.Helper()
	e, err := policy.New(policy.Options{Network: policy.Network{Mode: m, Allow: rules}, Ask: func(context.Context, policy.Question) (policy.Answer, error) { return policy.Answer{}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return hypervisor.Config{Network: e, UID: -1, GID: -1}
}

// TestSharing: datagrams are looked at where somebody decides about them, and there is no sharing without Landlock's last word.
func TestSharing(t *testing.T) {
	if err := copiesDescriptors(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cfg  hypervisor.Config
		want filters.Sharing
	}{
		{podConfig(t, policy.Pod), filters.SharedConnections}, {podConfig(t, policy.Pod, "192.0.2.1"), filters.SharedDatagrams}, {podConfig(t, policy.PodAsk), filters.SharedDatagrams},
	} {
		if !c.cfg.InPod() {
			t.Errorf("%s is no pod's", c.cfg.Network.Mode())
		}
		if got, err := Sharing(c.cfg, filters.LandlockScopes); err != nil || got != c.want {
			t.Errorf("%s: %v, %v", c.cfg.Network.Mode(), got, err)
		}
		if _, err := Sharing(c.cfg, filters.LandlockScopes-1); !errors.Is(err, hypervisor.ErrUnavailable) || !strings.Contains(err.Error(), "Linux 6.12") {
			t.Error(err)
		}
	}
	if podConfig(t, policy.Open).InPod() || (hypervisor.Config{}).InPod() {
		t.Error("a network of its own is no pod's")
	}
}

// TestSharedNeedsMediation: over FUSE nobody answers connections.
func TestSharedNeedsMediation(t *testing.T) {
	cfg := podConfig(t, policy.Pod)
	cfg.Bridge = hypervisor.BridgeFUSE
	g, err := New(Options{}).Start(t.Context(), cfg)
	if err == nil {
		_ = g.Stop(t.Context())
	}
	if !errors.Is(err, hypervisor.ErrUnavailable) || !strings.Contains(err.Error(), "mediated bridge") {
		t.Error(err)
	}
}
