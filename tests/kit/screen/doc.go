// Package screen puts a program on a terminal, as a user has it ([On]), and lets a
// test program run itself as another program ([Helper]).
package screen
