package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/format"
	"github.com/codeagent/sandbox/guest/image"
)

// rootOptions are the flags of guest build that are about the root file system.
type rootOptions struct {
	kind string
	o    image.RootFSOptions
}

// check returns an error for flags that do not go together.
func (r *rootOptions) check() error {
	switch {
	case r.kind != "" && r.kind != "debian":
		return fmt.Errorf("--rootfs: %q is not debian", r.kind)
	case r.kind == "" && (len(r.o.Include) > 0 || r.o.Minimal || r.o.Mirror != ""):
		return errors.New("--include, --minimal and --mirror are about a root file system: add --rootfs debian")
	}
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds <= 0 {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %q is not a number of seconds", text)
	}
	r.o.Epoch = time.Unix(seconds, 0)
	return nil
}

// builtRoot is the part of builtImage about the root file system.
type builtRoot struct {
	Dir   string `json:"dir"`
	Built bool   `json:"built"`
	image.RootManifest
}

func (a *app) rootBuild(ctx context.Context, o image.RootFSOptions, force bool) (*builtRoot, error) {
	r, err := image.OpenRootFS(o.Dir, o.Arch)
	if err == nil {
		err = r.Verify()
	}
	built := force || errors.Is(err, image.ErrNone)
	if built {
		a.note("building Debian for " + o.Arch + "; this downloads the packages and takes a minute or more")
		r, err = image.BuildRootFS(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	return &builtRoot{Dir: r.Dir, Built: built, RootManifest: r.Manifest}, nil
}

func (a *app) guestResetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reset",
		Short: "Throw away what the folder's persistent machine has kept",
		Long: "Remove the disk of the persistent machine (vm.mode) that belongs to the working folder: its home directory and\n" +
			"what is installed in it. The folder and its history stay as they are. A running session is reset by itself\n" +
			"(session.reset), not by this.",
		Args: checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.guestReset(cmd.Context()) },
	}
}

// wiped is what guest reset prints.
type wiped struct {
	Directory string `json:"directory"`
	Disk      string `json:"disk"`
	Removed   bool   `json:"removed"` // there was one
}

func (a *app) guestReset(ctx context.Context) error {
	dirs, err := a.directories(true)
	if err != nil {
		return err
	}
	folder := dirs[0].Path
	disk, err := a.disk(folder)
	if err != nil {
		return err
	}
	w := wiped{Directory: folder, Disk: disk.Path, Removed: exists(disk.Path)}
	if err := disk.Wipe(ctx); err != nil {
		return err
	}
	if a.flags.json {
		return a.out.JSON(w)
	}
	if !w.Removed {
		fmt.Fprintf(a.out, "%s has no persistent machine\n", format.Shown(folder))
		return nil
	}
	fmt.Fprintf(a.out, "%s: removed %s\n", format.Shown(folder), format.Shown(filepath.Dir(disk.Path)))
	return nil
}
