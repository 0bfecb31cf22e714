// Package why is 'sandbox why': it explains what commands could do with a path, a
// destination or a key, which rule decides that, and what would change it.
//
// It asks no session. What the configuration and the flags say goes through the same code
// that decides in a session: the plan of the jail's view (hypervisor/jail) and the engine
// of the network's policy.
package why
