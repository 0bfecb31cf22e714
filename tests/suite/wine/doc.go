// Package wine runs the tests of our packages that are built for Windows, under wine (tests/kit/wine). Which packages, and which
// of their tests fail there and why, stands in one table. A test of the table that passes is an error, too: so the list only shrinks.
package wine
