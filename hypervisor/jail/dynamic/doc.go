// Package dynamic chooses what a jail that asks shows from the start, and what a person has to
// allow first.
//
// From the start it shows what belongs to the system (/usr, /etc and their like), tool chains (what PATH
// and variables such as JAVA_HOME name, and where version managers keep what they install), and settings of
// shells, git and editors, as far as they hold no secrets. Everything else of the host lies behind gates (package
// fsbridge/gate): /home, /opt, /srv, /var, the home directory and each other directory of the root. What a session adds
// itself, its working folders, caches and places, is mounted on top by the jail.
//
// The package only looks at the host, and has no state. It does not follow what changes later: a directory that
// appears in the root directory during the session is seen, since the gates are already made; only root can make one.
package dynamic
