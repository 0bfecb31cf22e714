//go:build !race

package main

const withRaceDetector = false
