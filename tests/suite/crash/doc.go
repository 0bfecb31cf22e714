// Package crash holds the kill -9 campaign: the real program is killed while it
// runs a command, an undo or a redo, at random moments and at every injected
// fault point, and afterwards the folder must be as it was before the step, or
// as it was after if the step had been closed: never in between. The same holds for
// marks, for runs of agents with steps from inside, and for each party of a joined command. No process,
// mount or file may be left by what was killed.
//
// SANDBOX_CRASH_RUNS sets how many kills (default 40, 10 with -short; an eighth of them over the mediated bridge),
// and SANDBOX_CRASH_TIME for how long each campaign goes on at most: CI does 500, or what two minutes allow.
// SANDBOX_CRASH_SEED repeats a campaign that failed: it prints its seed.
package crash
