//go:build race

package main

// With the race detector the program starts ten times as slowly: a few of each kind show the races.
const withRaceDetector = true
