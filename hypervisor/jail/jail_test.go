//go:build linux

package jail_test

import "testing"

func supervise() {}

func TestJailSmoke(t *testing.T) {
	j := start(t, nil)
	t.Log(j.sh("id; pwd; ls -la; echo hi > f; cat f; ls -la /; ls -la /dev; ps aux; cat /proc/mounts | tail -40; env; grep Cap /proc/self/status; hostname; ip a; ls -la /root"))
	t.Log(j.Facts())
}
