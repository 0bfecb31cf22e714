package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages/lexical"
)

func (a *app) restoreCommand() *cobra.Command {
	var (
		r    api.RestoreRequest
		step int64
	)
	cmd := &cobra.Command{
		Use:   "restore PATH --step N",
		Short: "Put one path, and what is below it, back to how it was before step N",
		Args:  checkArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if step == 0 {
				return console.Usagef("--step is missing: 'sandbox history' lists the steps")
			}
			r.Step = undolog.StepID(step)
			with := a.launch.WithService
			if r.DryRun {
				with = a.launch.Looking
			}
			return with(cmd.Context(), func(s api.Service, d api.Directory) error {
				path, err := relativePath(d.Path, args[0])
				if err != nil {
					return err
				}
				r.Directory, r.Path = d.Path, path
				line := console.ProgressOn(a.stderr, "restoring", console.ProgressPaths)
				r.Progress = line.Report
				var res api.UndoResult
				err = uncut(a.stderr, "the restore", func() (err error) {
					res, err = s.Restore(cmd.Context(), r)
					return err
				})
				line.End()
				if err != nil {
					return err
				}
				if res.PathCount == 0 && len(res.Steps) == 0 && !a.flags.json {
					fmt.Fprintf(a.stderr, "%s is as it was before step %d; nothing was done\n", console.Shown(args[0]), step)
				}
				return a.printUndo("restored", res)
			})
		},
	}
	cmd.Flags().Int64Var(&step, "step", 0, "the `step` before which the path was as wanted")
	cmd.Flags().BoolVar(&r.Force, "force", false, "overwrite edits made outside the sandbox")
	cmd.Flags().BoolVar(&r.DryRun, "dry-run", false, "only print what would change")
	return cmd
}

// catCommand prints what restore would put back.
func (a *app) catCommand() *cobra.Command {
	r, step := api.ContentRequest{}, int64(0)
	cmd := &cobra.Command{
		Use:   "cat PATH --step N",
		Short: "Print a file as it was before step N, or after it",
		Args:  checkArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if step == 0 {
				return console.Usagef("--step is missing: 'sandbox history' lists the steps")
			}
			r.Step = undolog.StepID(step)
			return a.launch.Looking(cmd.Context(), func(s api.Service, d api.Directory) error {
				path, err := relativePath(d.Path, args[0])
				if err != nil {
					return err
				}
				r.Directory, r.Path = d.Path, path
				if err := a.out.Contents(func(w io.Writer) error { return s.Content(cmd.Context(), r, w) }); err != nil {
					return fmt.Errorf("step %d: %w", step, err)
				}
				return nil
			})
		},
	}
	cmd.Flags().Int64Var(&step, "step", 0, "the `step` before which the file is printed")
	cmd.Flags().BoolVar(&r.After, "after", false, "as it was after the step")
	return cmd
}

// relativePath makes a path as the user typed it (relative to the current
// directory) relative to the working folder. Its last element is not resolved:
// it may be a symlink, or gone.
func relativePath(workdir, path string) (string, error) {
	if path == "" { // an unset variable in a script; "." is all of the folder
		return "", console.Usagef("the path is empty")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rel, in := lexical.Rel(workdir, resolveExisting(abs))
	if !in {
		return "", console.Usagef("%s is not in the working folder %s", path, workdir)
	}
	return rel, nil
}

// resolveExisting resolves the symlinks of the directories above path, as far
// as they exist.
func resolveExisting(path string) string {
	tail := filepath.Base(path)
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, tail)
		}
		if filepath.Dir(dir) == dir {
			return path
		}
		tail = filepath.Join(filepath.Base(dir), tail)
	}
}
