//go:build !unix

package watcher

import (
	"io/fs"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// idOf: a [Source] here knows directories by their paths.
func idOf(fs.FileInfo) hostfs.ID { return hostfs.ID{} }
