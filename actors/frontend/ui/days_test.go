package ui

import (
	"bufio"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// TestOpenForDays: a page that is open for a week while sessions come and go hears of each of them, is told all the time
// that the server lives, and holds nothing for those that are gone.
func TestOpenForDays(t *testing.T) {
	f, clock := newFake(), actortest.NewFakeClock()
	f.sessions = nil
	x := newLabWith(t, f, Options{Sources: travels{f}, Version: "test", Clock: clock})
	res, err := x.page.Do(x.request("GET", "/api/events", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	news := make(chan string, 1<<16)
	go func() {
		defer close(news)
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if line, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				news <- line
			} else if strings.Contains(lines.Text(), `"sessions"`) {
				news <- "sessions"
			}
		}
	}()
	heard := func(what string) {
		t.Helper()
		for actortest.Within(t, what, news) != what {
		}
	}
	subscribed := func(n int) {
		t.Helper()
		actortest.Eventually(t, fmt.Sprint(n, " subscriptions"), func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.heard == n
		})
	}
	heard("hello")
	before := 0
	for day := range 7 {
		for hour := range 24 {
			f.mu.Lock()
			f.sessions = []api.SessionInfo{{Session: fmt.Sprint("s", day, "-", hour), Directories: []string{"/work"}}}
			f.mu.Unlock()
			clock.WaitArmed(lookEvery)
			clock.Advance(lookEvery)
			heard("sessions")
			subscribed(1)
			f.mu.Lock()
			f.sessions = nil
			f.mu.Unlock()
			f.events <- api.Event{Type: api.EventWarning, Message: endsHere}
			heard("sessions")
			subscribed(0)
			// Not WaitArmed: the timer that looks for sessions is due before the beat's, which the page may still have to arm.
			actortest.Eventually(t, "both timers", func() bool { return clock.Timers() == 2 })
			clock.Advance(time.Hour)
			heard("beat")
		}
		if day == 0 {
			before = runtime.NumGoroutine()
		}
	}
	actortest.Eventually(t, "nothing is held for sessions that are gone", func() bool { return runtime.NumGoroutine() <= before+2 })
	if r := x.get("/api/overview"); r.status != 200 {
		t.Errorf("%+v", r)
	}
}
