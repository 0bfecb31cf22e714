//go:build tools

package tests

import (
	_ "charm.land/bubbletea/v2"
	_ "github.com/asynkron/protoactor-go/actor"
	_ "github.com/bmatcuk/doublestar/v4"
	_ "github.com/fsnotify/fsnotify"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/jsonschema-go/jsonschema"
	_ "github.com/hanwen/go-fuse/v2/fs"
	_ "github.com/hanwen/go-fuse/v2/fuse"
	_ "github.com/hanwen/go-fuse/v2/posixtest"
	_ "github.com/klauspost/compress/zstd"
	_ "github.com/lmittmann/tint"
	_ "github.com/modelcontextprotocol/go-sdk/mcp"
	_ "github.com/pelletier/go-toml/v2"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/spf13/cobra"
	_ "github.com/u-root/u-root/pkg/cpio"
	_ "go.uber.org/goleak"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "pgregory.net/rapid"
)
