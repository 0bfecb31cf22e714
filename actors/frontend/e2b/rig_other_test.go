//go:build !unix

package e2b

import "os"

func signalOf(*os.ProcessState) int { return 0 }
