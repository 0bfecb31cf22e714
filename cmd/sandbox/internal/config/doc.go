// Package config reads codeagent.toml at its levels and says where every value
// comes from. docs/configuration.md describes it for users.
//
// These set a value. Each wins over those before it:
//
//	default        the table of keys in keys.go
//	organisation   /etc/codeagent/codeagent.toml
//	user           codeagent.toml in the user's configuration directory
//	project        codeagent.toml in the working folder
//	flag           the command line
//
// Two things limit this. The organisation's file may lock keys: then nothing after
// it changes them. What runs inside the sandbox can write the project's file, so
// this file is hostile: each key has a [Rule] that says what a project may do with
// it: not set it, only tighten the value that holds without it, or set any value.
// The file is read up to a size limit, and not through a symlink.
//
// The fields of a [Config] are groups. Where a session or a runtime takes a group as it is said, the type is theirs (hypervisor.Jail, api.Undo), and this
// package embeds it: what is added there needs a row in keys.go and nothing else here.
//
// A file is taken as a whole or not at all. All errors are reported; each names
// file, line and key. A [Set] is not safe for concurrent use.
//
// # Profiles
//
// This part knows what single agents need in the sandbox: the configuration that they
// write, the hosts that they talk to, the variables with their keys, and their own
// credentials. A profile is a TOML file; those of well-known agents are built in. The user's
// own, then the organisation's, take the place of a built-in one of the same name. A project
// has none, because what runs inside could write it.
//
// A profile only widens, so it is checked as strictly as can be: what it writes lies below
// the home directory, after symlinks are resolved, and is no known secret; a credential that it
// shows lies in what it writes. It names no folder of a session.
package config
