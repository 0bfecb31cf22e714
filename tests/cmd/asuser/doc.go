// Asuser runs a program, usually a test binary, as an ordinary user:
//
//	go test -exec "$(pwd)/bin/asuser" ./fsbridge/...
//
// It must be started as root. See package user for what the program finds.
package main
