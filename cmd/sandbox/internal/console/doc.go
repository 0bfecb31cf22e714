// Package console is what the commands have in common when they speak to a person or to a shell: what is printed and how, progress, questions
// at a terminal, job control, exit statuses, and the log.
//
// # The terminal
//
// This part joins the user's terminal with the pseudo-terminal of a command
// ([Relay]), and asks questions on a terminal ([Relay.Ask], [PromptTerminal]).
//
// While a relay runs, the user's terminal is raw: every key goes to the command,
// Ctrl-C and Ctrl-Z too. [Relay.Stop] gives it back as it was, and must be called
// also when something panics. One goroutine moves all bytes and runs the prompts,
// so that nothing else reads or writes while a question is on the screen. Where not all files can be waited for together (macOS, Windows, the build
// tag portable), one goroutine reads the keys and runs the prompts, and one shows the output, which waits while a question is on the screen.
//
// A process in the background that reads a terminal, or changes it, is stopped by
// the kernel. Therefore a relay looks first whether it is in the foreground, and
// waits until it is.
//
// # Job control
//
// This part runs a command in front of the user: a [Job] stands between the
// user's terminal and signals on one side and a session on the other.
//
// A program uses it in this order: [NewJob], HandleSignals on a goroutine of its own,
// then, with a session, Event as its subscriber and Decide on a goroutine; Started
// when the command runs; LeaveTerminal when it has ended; Remarks when the
// terminal is the user's again; Close.
//
// What has to be said while the command runs is kept for the end if the command
// has the terminal, so that it disturbs no full-screen program.
//
// What a console of Windows tells (Ctrl-C, Ctrl-Break, its end) comes as the signals that it is on Linux.
//
// When the command has stopped (Ctrl-Z), on Linux, so does the program, with its group of
// processes, and goes on with it. A program that has a session serves others
// meanwhile: a [Watch] continues it alone for them. So main calls Watch if
// [IsWatch] says so.
//
// # The log
//
// This part makes the program's logger: JSON lines with the names that
// docs/logging.md describes, or coloured text on a terminal. Both add the request
// and the step that the context names, and a component where a line has none.
//
// What is logged may come from hostile files: the text form writes out every
// character that is not printable, so that it cannot act on the terminal.
//
// # Exit statuses
//
// This part is how the program ends: its exit statuses, and the errors that
// choose one. Any other error is the status Failed.
//
// # What is printed
//
// This part turns what the program prints into text: the result of a command
// ([Output]), figures and names ([Bytes], [Ago], [Shown]), and steps of the undo
// log. It decides nothing and asks nobody.
//
// Names and texts that come from a folder, or from what ran in it, are hostile: a
// terminal acts on escape sequences. Whatever prints one passes it through
// [Shown] or [OneLine] first.
//
// Functions keep no state, so they are safe for concurrent use.
//
// # Progress
//
// This part tells a person on a terminal that something takes longer: a line that
// says since when and, where that is known, how much of it is done. It comes after a second,
// is drawn anew as time passes, and is gone at the end:
//
//	undoing  ███████▌             7512/20000 paths  4s
//
// If there is no terminal, nothing is written. Other output to the terminal replaces the line, which
// then comes again below that output.
//
// # The tree of a session
//
// This part shows the live parts of a session: once, as a table ([WriteTree]),
// or again and again on the whole terminal ([WatchTree]). It keeps nothing but what it
// shows, and asks the session twice a second.
//
// # The picture of a history
//
// This part draws the history of a folder for a terminal, newest first, one line for
// each entry ([DrawGraph]):
//
//	      STEP     WHEN        SPAN  PATHS     COMMAND
//	◌     8        just now    12ms  ▉      1  rm notes
//	⚑     mark     2 min ago                   before
//	  ╭●  7        2 min ago  1.21s  █████ 40  npm ci  [run 4]
//	◆ │   5        3 min ago    1ms  ▉      1  restore src --step 3
//	  ├○  -1       3 min ago    3ms  ▉      1  (written between commands)
//	  ╰●  4        4 min ago  130ms  ▉      1  codex
//	✕┄┄┄  barrier  5 min ago                   changed outside: a.txt
//	●     3        6 min ago   20ms  ██▏    4  make
//
// The first column has the steps that stand alone. Each agent's run has a lane of its own
// to the right of it, from its newest step to its oldest: a line joins its steps, and passes those of
// others. A lane is open at its lower end if older steps of the run are not listed, or if the history has
// lost them. A glyph says what the entry is ([Kind]); colours only repeat it.
//
// Whatever the commands and names are, the picture has nothing that a terminal could take for more
// than text. No line is wider than the terminal: columns go when there is no
// room for them, and what is left is cut. Functions keep no state.
package console
