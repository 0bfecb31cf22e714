// Package service keeps the services of a session: commands with a name that run
// beside the steps. A service holds no step open. What it writes belongs to the step
// that is open at the time, or to an ambient one.
//
// A service ends by itself, when it is stopped, or with the session's guest. What it
// wrote to stdout and stderr is kept up to a bound, the newest of it, also after its
// end, until a service of the same name is started or the session ends. The output is
// the workload's: it is not trusted, and bounded whatever it is.
//
// Locks: [Set].mu, then a service's own; neither is held while something waits.
package service
