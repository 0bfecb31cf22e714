package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/guest/image"
)

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

func (a *app) guestListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the images and root file systems that were built",
		Args:  checkArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			dir, err := image.DefaultDir()
			if err != nil {
				return err
			}
			list := image.List(dir)
			if a.flags.json {
				return a.out.JSON(list)
			}
			if len(list) == 0 {
				fmt.Fprintln(a.stderr, image.ErrNone)
				return nil
			}
			return a.out.Table(func(w io.Writer) {
				fmt.Fprintln(w, "KIND\tARCH\tVERSION\tSIZE\tBUILT\tIN")
				for _, b := range list {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", b.Kind, b.Arch, console.Shown(b.Version), console.Bytes(b.Bytes), console.Ago(b.At, time.Now()), console.Shown(b.Dir))
					if b.Problem != "" {
						fmt.Fprintf(w, "\t%s\n", console.Shown(b.Problem))
					}
				}
			})
		},
	}
}

// wiped is what guest reset prints.
type wiped struct {
	Directory string `json:"directory"`
	Disk      string `json:"disk"`
	Removed   bool   `json:"removed"` // there was one
}

func (a *app) guestReset(ctx context.Context) error {
	dirs, err := a.launch.Directories(true)
	if err != nil {
		return err
	}
	folder := dirs[0].Path
	disk, err := a.launch.Disk(folder)
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
		fmt.Fprintf(a.out, "%s has no persistent machine\n", console.Shown(folder))
		return nil
	}
	fmt.Fprintf(a.out, "%s: removed %s\n", console.Shown(folder), console.Shown(filepath.Dir(disk.Path)))
	return nil
}
