package main

import (
	"context"
	"os"

	cmap "github.com/orcaman/concurrent-map"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/launch"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/shortcut"
	"github.com/codeagent/sandbox/guest/inner"
)

func main() {
	if inner.Invoked(os.Args) { // as the program inside a jail, where none is embedded
		os.Exit(inner.Main(os.Args))
	}
	if console.IsWatch(os.Args) {
		os.Exit(console.Watch(os.Args))
	}
	if launch.IsScout(os.Args) {
		os.Exit(launch.Scout(os.Args, os.Stdin, os.Stdout))
	}
	// The actor library keeps its processes in 1,024 maps of that many shards each. With
	// the 32 that are the default, making the 32,768 maps is a tenth of what a cold
	// `sandbox run -- true` costs. It is set before the first map is made.
	cmap.SHARD_COUNT = 1
	program()
}

// program runs and ends the program, by a signal if one has ended its command.
func program() {
	code, signal := execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	shortcut.Die(signal)
	os.Exit(code)
}
