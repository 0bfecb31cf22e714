// Package programs finds the programs of this machine that a supervisor starts outside, with its user's rights.
//
// Variables lead there: PATH often has directories of a project (by direnv, npm or a virtual environment), and what programs inside have put there would be started outside. So a
// program does not count that lies, or leads, where they can write.
package programs
