// Package config reads codeagent.toml at its levels and says where every value
// comes from. docs/configuration.md describes it for users.
//
// A value is set by, each winning over those before it:
//
//	default        the table of keys in keys.go
//	organisation   /etc/codeagent/codeagent.toml
//	user           codeagent.toml in the user's configuration directory
//	project        codeagent.toml in the working folder
//	flag           the command line
//
// Two things limit that. The organisation's file may lock keys: nothing after it
// changes them. And what runs inside the sandbox can write the project's file,
// so that it is hostile: each key has a [Rule] for it, of which the strongest is
// that a project may only tighten what is set without it. The file is read
// without following a symlink and up to a size limit.
//
// A file is taken as a whole or not at all; errors name file, line and key and
// are all reported. A [Set] is not safe for concurrent use.
package config
