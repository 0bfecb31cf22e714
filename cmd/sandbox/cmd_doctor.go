package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// finding is one thing that 'sandbox doctor' looked at.
type finding struct {
	Name   string `json:"name"`
	State  string `json:"state"` // ok, warn (works without), fail (run does not work)
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"`
}

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine can do, and what to install",
		Long:  "Say what this machine can do, and what to install. The exit status is 1 if 'sandbox run' cannot work here.",
		Args:  checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			findings := a.examine(cmd.Context())
			failed := 0
			for _, f := range findings {
				if f.State == "fail" {
					failed++
				}
			}
			if a.flags.json {
				if err := a.out.JSON(findings); err != nil {
					return err
				}
			} else {
				a.printFindings(findings)
			}
			if failed > 0 {
				return &exitError{code: exitFailed, err: fmt.Errorf("'sandbox run' cannot work here: %d problem(s)", failed)}
			}
			return nil
		},
	}
}

func (a *app) printFindings(findings []finding) {
	for _, f := range findings {
		mark := a.paint.Green("ok  ")
		switch f.State {
		case "warn":
			mark = a.paint.Yellow("warn")
		case "fail":
			mark = a.paint.Red("FAIL")
		}
		fmt.Fprintf(a.out, "%s  %-16s %s\n", mark, f.Name, f.Detail)
		if f.Advice != "" {
			fmt.Fprintf(a.out, "      %-16s -> %s\n", "", f.Advice)
		}
	}
}
