// Package graph draws the history of a folder for a terminal, newest first, one line for
// each entry ([Draw]):
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
// lost them. A glyph says what the entry is ([format.Kind]); colours only repeat it.
//
// Whatever the commands and names are, the picture has nothing that a terminal could take for more
// than text. No line is wider than the terminal: columns go when there is no
// room for them, and what is left is cut. Functions keep no state.
package graph
