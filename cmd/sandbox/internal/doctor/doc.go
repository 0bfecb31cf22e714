// Package doctor finds out what this machine can do for the program, and what to
// install. It changes nothing; where the switches that forbid something are many
// (user namespaces), it tries the thing itself.
//
// Only a finding with the state fail means that commands cannot run: the jail is
// the default, so a machine that cannot be started is a warning.
package doctor
