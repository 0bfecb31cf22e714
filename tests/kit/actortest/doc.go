// Package actortest holds what tests of actors need: a clock that moves only
// when it is told to ([FakeClock]), a probe that records messages ([Probe]),
// and [Eventually] for what happens on other goroutines. Nothing sleeps for a
// fixed time.
package actortest
