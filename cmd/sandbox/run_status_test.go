package main

import (
	"os"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

// U9: what is said of a failed step is what became of it.
func TestU9WhatBecameOfAFailedStep(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for outcome, want := range map[string][2]string{
		"failed": {"step 3 failed and was rolled back: why", "step 3 failed and could not be rolled back: why"},
		"denied": {"step 3 was denied and rolled back: why", "step 3 was denied and could not be rolled back: why"},
	} {
		for i, left := range []bool{false, true} {
			a := &app{out: console.NewOutput(null), stdout: null, stderr: null}
			err := a.runStatus(api.RunResult{Step: 3, Outcome: outcome, Reason: "why", Left: left}, nil, nil)
			if err == nil || err.Error() != want[i] {
				t.Errorf("%v, want %q", err, want[i])
			}
		}
	}
}
