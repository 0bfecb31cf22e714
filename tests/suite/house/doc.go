// Package house tests that the packages keep the rules of ARCHITECTURE.md:
//
//   - A room (top-level folder) uses only the rooms that it may, and no arrow is there that is forbidden within one.
//   - The picture of the packages is that of the imports.
//   - A file that is not a test has at most 500 lines.
//   - A package that is not of the tests has a doc.go with its documentation.
//
// What counts is the imports of Linux (with injected faults too), macOS and
// Windows, without test files. The linter (.golangci.yml) says which packages may use a library.
package house
