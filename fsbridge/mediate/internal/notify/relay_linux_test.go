package notify

import "testing"

// After a worker was long in coming, one is enough for a while.
func TestRelayWhileItPays(t *testing.T) {
	var r Relay
	for range 10 {
		if !r.Due() {
			t.Fatal("nobody is woken at first")
		}
		r.Woken(wokenSoon)
	}
	r.Woken(wokenSoon + 1)
	for i := range stayAlone {
		if r.Due() {
			t.Fatalf("somebody is woken after %d notifications", i)
		}
	}
	if !r.Due() {
		t.Error("it is not tried again")
	}
}
