// Package house tests that the packages keep the rules of ARCHITECTURE.md:
//
//   - Every package stands in its table, and every row has packages.
//   - A package imports of ours only what its row allows, and the row allows
//     nothing that no file imports.
//   - Every import points to a row below. So there is no circle, not between
//     groups of packages either.
//   - A file that is not a test has at most 500 lines.
//   - A package that is not of the tests has a doc.go with its documentation.
//
// What counts is the imports of Linux (with injected faults too), macOS and
// Windows, without test files. The linter has rules too (.golangci.yml), which
// say also what a package may import of others.
package house
