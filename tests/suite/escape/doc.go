// Package escape holds what a hostile workload would try, run in real jails with
// real bridges, as root-started and as an ordinary user. The test program is
// the supervisor, the guest's inner program and the attacker in one.
package escape
