// Command wine runs a program of Windows on Linux (package tests/kit/wine), above all test binaries:
//
//	go build -o /tmp/wine ./tests/cmd/wine
//	GOOS=windows go test -vet=off -exec /tmp/wine ./messages/...
//	/tmp/wine [-limit DURATION] [-write DIR] PROGRAM.exe [ARGUMENT...]
//
// It must be started as root. The first time it makes what wine needs, which takes half a minute.
//
// The program runs as nobody, with this process's standard streams and environment. It can read the module around the
// working directory, or the working directory if there is none, and its own file, all by the paths of the host (drive Z:); it can
// write below the directories after -write, which may be many, and on drive C:, which is its own and new. The exit status is the
// program's, as far as it fits into eight bits; 125 says that wine cannot run here, and standard error says why;
// 124 that the limit was reached. What the program leaves running ends with it.
package main
