// Package ui is the command 'sandbox ui': it serves the page of package actors/frontend/ui on a
// loopback address, and gives it what the other commands know.
//
// What a command prints as JSON (the findings of 'doctor', the configuration with its origins) is taken
// from that command: the program runs itself, and so says the same on the page as in the terminal.
package ui
