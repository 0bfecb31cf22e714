// Command sandbox-guest is the one program of ours inside a guest. sandbox
// starts it; it is of no use by hand.
package main

import (
	"os"

	"github.com/codeagent/sandbox/guest/inner"
)

func main() { os.Exit(inner.Main(os.Args)) }
