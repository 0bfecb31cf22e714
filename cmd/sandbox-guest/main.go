package main

import (
	"os"

	"github.com/codeagent/sandbox/guest/inner"
)

func main() { os.Exit(inner.Main(os.Args)) }
