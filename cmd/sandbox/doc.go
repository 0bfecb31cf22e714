// Command sandbox runs commands isolated on a real folder and undoes what they
// did. docs/cli.md describes its commands.
//
// # Where things are
//
// Each command has one file, cmd_NAME.go: its flags, what it asks a session, and
// what it prints. app.go has what all commands share: global flags, the
// configuration, the exit status. main only calls run, and only main exits.
//
// The packages below internal have one idea each and know nothing of command
// lines. launch turns flags and configuration into folders, runtimes and sessions;
// job runs a command in front of the user; serve lets another program drive
// sessions; format and logging say how text looks. Package actors does everything
// that a command does to a folder.
//
// # Invariants
//
// stdout carries a command's result only. Logs, prompts and remarks go to stderr.
// Names from folders and from what ran in them pass through format.Shown or
// format.OneLine before they are printed, because a terminal acts on escape
// sequences. There is no package-level state: an app is one invocation.
package main
