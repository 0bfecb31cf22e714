package main

import (
	"bytes"
	"context"
	"os/exec"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type floorIn struct {
	Command string `json:"command"`
}

type floorOut struct {
	ExitCode *int   `json:"exit_code"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
}

// serveFloor is what floorArg asks for.
func serveFloor(ctx context.Context) error {
	s := sdk.NewServer(&sdk.Implementation{Name: "floor", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "execute_command"}, func(ctx context.Context, _ *sdk.CallToolRequest, in floorIn) (*sdk.CallToolResult, floorOut, error) {
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, "sh", "-c", in.Command)
		cmd.Env, cmd.Stdout, cmd.Stderr = environ(), &stdout, &stderr
		err := cmd.Run()
		code := cmd.ProcessState.ExitCode()
		return nil, floorOut{ExitCode: &code, Stdout: stdout.String(), Stderr: stderr.String()}, err
	})
	return s.Run(ctx, &sdk.StdioTransport{})
}
