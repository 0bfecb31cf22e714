// Package metrics tells Prometheus what the sessions of this process do: how many there are, what runs and waits in them, what their logs keep, what the bridges were asked, and how long undos took.
//
//	m := metrics.New(metrics.Options{Version: version})
//	leave := m.Join(session) // until it has ended
//	cfg.Applied = m.Applied  // before it starts
//	http.Handle("/metrics", m.Handler())
//
// # Rules
//
//   - A scrape reads [api.Status], which asks no actor and no disk: a session that is busy, held or stuck delays nobody who measures it. Steps and questions are counted from the session's events.
//   - Nothing that a command or a user has chosen becomes a label or a value's name: no path, no command, no session's id. Labels have few values, which are in the program. So what is shown is no secret, and its
//     size does not grow with the number of sessions.
//   - Counters never go down: what an ended session or a bridge that was replaced has counted is kept.
//   - Names begin with sandbox_, units and suffixes are as Prometheus has them. docs/fleet.md lists them.
//
// The library is the one that the actor library links anyway. Its global registry is not used.
//
// Types are safe for concurrent use. Metrics.mu is held while a scrape asks the sessions for their status.
package metrics
