// Package agents relays programs inside to an agent that keeps keys outside: ssh-agent, gpg-agent. The agent's own socket never goes inside.
//
// What passes is a list: the names of the keys, signatures, and the binding of a connection to a server. Everything else (adding and removing keys, locking,
// other extensions) is answered with a failure, as by an agent that does not know it. A request for a signature is taken apart before it passes: what is not
// a log-in at an ssh server, or a signature that ssh-keygen makes (SSHSIG: git), is refused, so nobody signs what no one understands. What it is about
// ([Use]) is decided by the caller, each time.
//
// With gpg-agent, which speaks in lines (Assuan), it is likewise: keys are looked up by their grips, one is chosen, a hash set, and a signature made of it. Of what is
// signed nobody knows more than the hash. Lines are put together anew before they pass, and the description that the agent's user reads is the relay's.
//
// Programs inside are hostile, and the agent may lie: messages of both are bounded (256 KiB; lines of 1,000 bytes, an answer of 64 KiB) and taken apart to their ends, and an answer that does not fit the
// request is a failure. A connection that is idle for an hour ends, and so does one of which a message does not arrive within a minute. At most 16 are
// served at once; more wait. There are no locks but that of the names of keys, which is held for a look at a map.
package agents
