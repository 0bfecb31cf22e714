//go:build !linux

package directory

import (
	"os"

	"github.com/codeagent/sandbox/actors/api"
)

// FilesOfReaders finds none: who reads a pipe cannot be asked here.
func FilesOfReaders([]api.FileID) []api.FileID { return nil }

func fileID(os.FileInfo) api.FileID { return api.FileID{} }

// writable takes each file to be open for writing: that cannot be asked here.
func writable(*os.File) bool { return true }
