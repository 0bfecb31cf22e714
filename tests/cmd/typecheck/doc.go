// Command typecheck says what the compiler would refuse in our packages and their tests on another system, without compiling anything: it reads the sources of
// all that they import, and of what is not ours only the declarations. That takes some seconds of a processor, where a build takes minutes.
//
//	typecheck GOOS/GOARCH PATTERN...
//
// It finds each error of types, names, imports and constants. What only a whole build finds (missing bodies in assembler, the linker's errors) it does not.
package main
