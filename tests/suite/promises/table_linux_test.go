package promises

// promise is a sentence of docs/security.md, and how somebody tries to break it.
type promise struct {
	id       string
	sentence string
	// inside tries it in a session, and returns how it was broken.
	inside func(*prey) error
	// outside looks, when the session has ended, and returns how it was broken.
	outside func(*ended) error
	// not says of an isolation why it does not promise this.
	not map[string]string
	// once says that it does not depend on the session.
	once bool
}

// applies returns whether a session promises it.
func (p *promise) applies(c cell) bool {
	return p.not[c.Isolation] == ""
}

// Reasons why an isolation does not promise something.
const (
	openly  = "isolates nothing"
	visible = "processes outside are visible"
	itsOwn  = "the kernel is the machine's own"
	relayed = "what it reads is copied to it"
)

// nothing is what --isolation none promises of most.
func nothing() map[string]string { return map[string]string{"none": openly} }

func but(isolation, why string) map[string]string {
	return map[string]string{"none": openly, isolation: why}
}

// promises are all of them, as the document has them.
func promises() []promise {
	return []promise{
		{id: "undo", sentence: "Whatever the command does in a working folder can be undone, however it does it: in place, by rename, through a memory mapping or a hard link, by a process left behind, with a hostile `codeagent.toml` written there",
			inside: changeFolder, outside: undone},
		{id: "files", sentence: "It cannot change other files of the host (but those that `--rw` names): neither their contents, names, modes, owners, times nor attributes, nor what a named pipe carries",
			inside: changeOutside, outside: unharmed, not: nothing()},
		{id: "home", sentence: "The home directory stays as it is: what is written there is an overlay's, or refused",
			inside: changeHome, outside: homesUnharmed, not: nothing()},
		{id: "unseen", sentence: "It cannot see processes outside", inside: seeProcesses, not: but("landlock", visible)},
		{id: "processes", sentence: "It can neither signal nor trace processes outside, nor read or limit what is theirs", inside: touchProcesses, outside: alive, not: nothing()},
		{id: "network", sentence: "It reaches no network, and no abstract socket, unless a [policy](network.md) allows it", inside: reachNetwork, not: nothing()},
		{id: "secrets", sentence: "Known secrets cannot be read ([the list](../hypervisor/secrets.txt)): in the home directory of the command and of who started the session, under sudo too, where variables move them, and by another name (hard link) beside them, in the working folder or in the home directory", inside: readSecrets, not: nothing()},
		{id: "hidden", sentence: "What `--hide` names cannot be read", inside: readHidden, not: nothing()},
		{id: "environment", sentence: "The environment has no credentials", inside: readEnvironment},
		{id: "logs", sentence: "The undo logs of this user, of this folder and of others, can neither be read nor changed", inside: reachLogs, not: nothing()},
		{id: "control", sentence: "The control socket cannot be reached: nothing inside approves its own safeguards", inside: reachControl, not: nothing()},
		{id: "steps", sentence: "At the socket for steps from inside, a program can only begin a step and end its own", inside: abuseSteps,
			not: map[string]string{"none": "has none", "landlock": "has none", "vm": "has none"}},
		{id: "sockets", sentence: "Sockets that programs outside listen on when the session starts cannot be connected to, whatever names they had before, and by none that they get later outside of the working folders", inside: reachSockets, not: nothing()},
		{id: "terminal", sentence: "The user's terminal never goes inside: it is relayed", inside: holdTerminal, not: nothing()},
		{id: "input", sentence: "A command does not start with a directory as a standard stream, and gets no other descriptor that leads to a directory of the host", inside: openDirectories, outside: refusesDirectory, not: but("vm", relayed)},
		{id: "requests", sentence: "Requests that lock encrypted files, change a file system or type into a terminal are refused on any descriptor", inside: makeRequests, not: nothing()},
		{id: "protected", sentence: "What git, shells, editors and agents run from the folder is not changed without a person's yes: hooks, configuration, also those of repositories in it, when these are moved, and what git's configuration leads to",
			inside: plantHooks, outside: nothingPlanted},
		{id: "own", sentence: "A program's own limits by Landlock hold for what is done in its name, or it is told that there are none", inside: restrictItself,
			not: but("vm", itsOwn)},
		{id: "first", sentence: "The session's first process cannot be limited, traced or read", inside: limitFirst, not: nothing()},
		{id: "rights", sentence: "It has no capabilities, gains none by setuid programs, and cannot make any in the folder", inside: gainRights, not: but("vm", itsOwn)},
		{id: "kernel", sentence: "It cannot load code into the kernel, mount, make namespaces, or use keys, io_uring or files by handle", inside: askKernel, not: but("vm", itsOwn)},
		{id: "shown", sentence: "Names and contents that a program chose do not act on the terminal of who looks at them (`history`, `show`, `diff`, `cat`)", inside: writeEscapes, outside: escaped},
		{id: "page", sentence: "The page answers nobody who does not have its token, also not for a browser's cookies or another name of the host", outside: pageRefuses, once: true},
		{id: "hook", sentence: "What a model writes into a command cannot leave the sandbox, whatever quotes it has", outside: hookQuotes, once: true},
	}
}
