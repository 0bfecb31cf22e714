// Command sandbox runs commands isolated on a real folder and undoes what they
// did. One file per command; docs/cli.md describes them.
//
// stdout carries a command's result only. Logs, prompts and remarks go to
// stderr. Everything a command does is done by package actors; this package
// parses, prints and handles the terminal.
package main
