package fuseproto

import (
	"testing"
	"time"
)

// script is a [Source] whose worker does what a test tells, when it tells.
type script struct {
	asks    chan struct{} // received from: Take was called
	take    chan PoolTaken
	perform chan struct{}
	wait    chan struct{}
}

func (s *script) Take() (uint64, PoolTaken) {
	s.asks <- struct{}{}
	return 1, <-s.take
}

func (s *script) Perform()                    { <-s.perform }
func (s *script) Wait()                       { <-s.wait }
func (s *script) Another(instead bool) Source { return nil }
func (s *script) Leave()                      {}

// TestReleasesAreNotOvertaken: what was taken before is waited for if it is a RELEASE, or may be one, and nothing else is.
func TestReleasesAreNotOvertaken(t *testing.T) {
	p := NewPool(PoolOptions{StallAfter: time.Hour})
	s := &script{make(chan struct{}), make(chan PoolTaken), make(chan struct{}), make(chan struct{})}
	p.Start(s)
	until := func(performed func() bool) {
		for !performed() {
			time.Sleep(100 * time.Microsecond)
		}
	}
	waits := func(what string, performed func() bool) {
		t.Helper()
		for range 100 {
			if performed() {
				t.Fatalf("%s is not waited for", what)
			}
		}
	}
	<-s.asks
	taking := p.Releases()
	waits("what a worker has perhaps taken", taking)
	s.take <- PoolNothing
	until(taking) // it waits for something to take
	if !p.Releases()() {
		t.Error("a worker that waits is waited for")
	}
	s.wait <- struct{}{}
	<-s.asks
	taking = p.Releases()
	s.take <- PoolRequest
	until(taking)
	if !p.Releases()() {
		t.Error("a request that is no RELEASE is waited for")
	}
	s.perform <- struct{}{}
	<-s.asks
	taking = p.Releases()
	s.take <- PoolRelease
	performing := p.Releases()
	waits("a RELEASE", taking)
	waits("a RELEASE", performing)
	s.perform <- struct{}{}
	<-s.asks
	s.take <- PoolRequest
	until(taking)
	until(performing)
	s.perform <- struct{}{}
	<-s.asks
	taking = p.Releases()
	s.take <- PoolGone
	<-p.Over()
	p.Wait()
	if !taking() || !p.Releases()() {
		t.Error("workers that are gone are waited for")
	}
}
