// Command outside is for wine what a program of Linux is for Linux: a child that can be waited for and killed.
//
//	outside.exe ARGUMENT...
//
// Beside it lies a file outside.exe.json, which says where the server is that runs the program with these arguments
// (package tests/kit/wine/outside). Streams and exit status are the program's. When outside.exe is killed, the program is.
package main
