package launch

import (
	"reflect"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/hypervisor/network/window"
	"github.com/codeagent/sandbox/messages"
)

// What the configuration says about the end of a step reaches the session.
func TestTiming(t *testing.T) {
	l := &Launcher{Conf: config.New()}
	want := api.Timing{QuiescenceIdle: messages.QuietTime, QuiescenceMax: messages.QuietMax, AmbientIdle: messages.AmbientIdle, ServiceAfter: messages.ServiceAfter}
	if got := l.Config(nil).Timing; got != want {
		t.Errorf("nothing is set: %+v, want %+v", got, want)
	}
	for key, value := range map[string]string{"steps.quiet": "7ms", "steps.quiet_max": "8ms", "steps.ambient_idle": "9s", "steps.service_after": "10s"} {
		if err := l.Conf.SetRequest(key, value); err != nil {
			t.Fatal(err)
		}
	}
	want = api.Timing{QuiescenceIdle: 7 * time.Millisecond, QuiescenceMax: 8 * time.Millisecond, AmbientIdle: 9 * time.Second, ServiceAfter: 10 * time.Second}
	if got := l.Config(nil).Timing; got != want {
		t.Errorf("all are set: %+v, want %+v", got, want)
	}
}

// What the configuration says of a group reaches the session, under whatever names.
func TestGroups(t *testing.T) {
	l := &Launcher{Conf: config.New()}
	for key, value := range map[string]any{
		"undo.max_bytes": int64(1), "undo.max_steps": int64(2), "undo.max_step_bytes": int64(3), "undo.max_age": "4h", "undo.max_uncompressed_bytes": int64(5), "undo.symlinks": "ignore",
		"undo.barriers": "warn", "undo.durability": "power", "undo.gitignore": true, "undo.keep_output": false,
		"safeguards.deletes": int64(1), "safeguards.overwrite_bytes": "2KiB", "safeguards.rename_over": true, "safeguards.protect": false, "safeguards.timeout": "3s", "safeguards.exempt": []any{"x"},
		"bridge.kind": "fuse", "bridge.cache": "none", "bridge.posix_metadata": true,
		"jail.run_32bit": true, "jail.debug": true, "jail.hide": []any{"/h"},
		"limits.pids": int64(-1), "limits.memory": "1MiB", "limits.cpus": "1.5", "limits.file": "2MiB", "limits.tmp": "3MiB",
		"network.policy": "allowlist", "network.allow": []any{"a.test"}, "network.deny": []any{"b.test"}, "network.publish": []any{"1:2"}, "network.strategy": "fail", "network.listening_base_port": int64(2000), "network.listening_port_count": int64(3), "network.listening_loopback": "127.0.0.2",
		"vm.memory": "1GiB", "vm.cpus": int64(3), "vm.acceleration": "tcg", "vm.boot_timeout": "9s", "vm.qemu": "/q",
	} {
		if err := l.Conf.SetRequest(key, value); err != nil {
			t.Fatal(key, err)
		}
	}
	got := l.Config(nil)
	for _, c := range []struct{ got, want any }{
		{got.Undo.Settings, undolog.Settings{
			Limits:   undolog.Limits{LogBytes: 1, StepCount: 2, StepBytes: 3, Age: 4 * time.Hour, AdoptedRaw: 5, InlineBytes: undolog.DefaultSettings().InlineBytes},
			Symlinks: undolog.SymlinkIgnore, Barriers: undolog.PolicyWarn, Durability: undolog.DurabilityPower, Gitignore: true,
		}},
		{got.KeepOutput, false},
		{got.Safeguards, api.Safeguards{DeleteThreshold: 1, OverwriteBytes: 2 << 10, RenameOver: true, Timeout: 3 * time.Second, Exempt: []string{"x"}}},
		{got.Jail, hypervisor.Jail{Programs32bit: true, Debug: true, Hide: []string{"/h"}}},
		{got.Serving, api.Serving{Bridge: hypervisor.BridgeFUSE, Cache: api.CacheNone, PosixMetadata: true}},
		{l.Conf.Limits.Resources(), hypervisor.Limits{PIDs: -1, Memory: 1 << 20, MilliCPUs: 1500, FileBytes: 2 << 20, TmpBytes: 3 << 20}},
		{l.Conf.VM.VM, hypervisor.VM{MemoryBytes: 1 << 30, CPUs: 3, Accel: "tcg", BootTimeout: 9 * time.Second, Program: "/q"}},
		{l.Conf.Network.Network, policy.Network{
			Mode: policy.Allowlist, Allow: []string{"a.test"}, Deny: []string{"b.test"}, Publish: []string{"1:2"},
			Settings: window.Settings{Strategy: window.Fail, BasePort: 2000, PortCount: 3, Loopback: "127.0.0.2"},
		}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%+v, want %+v", c.got, c.want)
		}
	}
}
