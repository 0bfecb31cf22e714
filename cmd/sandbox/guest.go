package main

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/guest/image"
)

func (a *app) guestCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "guest",
		Short: "Make what virtual machines boot",
		Args:  checkArgs(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.guestBuildCommand())
	return cmd
}

func (a *app) guestBuildCommand() *cobra.Command {
	var o image.Options
	var force bool
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Download a kernel and make the image that virtual machines boot",
		Long: "Download a kernel and a busybox from the distribution (apt, no root needed) and make the image that virtual\n" +
			"machines boot. It is kept in the user's cache directory; an image that is there and whole stays.",
		Args: checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Logger = a.log
			return a.guestBuild(cmd, o, force)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Arch, "arch", runtime.GOARCH, "the guest's architecture: amd64 or arm64")
	f.StringVar(&o.Dir, "image-dir", "", "`folder` of images instead of the one in the user's cache")
	f.BoolVar(&force, "force", false, "build again, with the newest packages")
	f.BoolVar(&o.Generic, "generic", false, "the distribution's general kernel: larger, with more drivers")
	f.StringVar(&o.KernelPackage, "kernel-package", "", "a .deb `file` to take the kernel from")
	f.StringVar(&o.BusyboxPackage, "busybox-package", "", "a .deb `file` to take busybox from")
	// It fails only for a flag that is not there.
	_ = cmd.RegisterFlagCompletionFunc("arch", cobra.FixedCompletions([]string{"amd64", "arm64"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// builtImage is what guest build prints.
type builtImage struct {
	Dir   string `json:"dir"`
	Built bool   `json:"built"` // now, not before
	image.Manifest
}

func (a *app) guestBuild(cmd *cobra.Command, o image.Options, force bool) error {
	if o.Arch != "amd64" && o.Arch != "arm64" {
		return usageError{fmt.Errorf("--arch: %q is not one of amd64, arm64", o.Arch)}
	}
	var err error
	if o.Dir == "" {
		if o.Dir, err = image.DefaultDir(); err != nil {
			return err
		}
	}
	i, err := image.Open(o.Dir, o.Arch)
	if err == nil {
		err = i.Verify()
	}
	built := force || errors.Is(err, image.ErrNone)
	if built {
		if !a.flags.json {
			fmt.Fprintln(a.stderr, "building the image for "+o.Arch+"; this downloads about 30 MB")
		}
		i, err = image.Build(cmd.Context(), o)
	}
	if err != nil {
		return err
	}
	if a.flags.json {
		return a.printJSON(builtImage{Dir: i.Dir, Built: built, Manifest: i.Manifest})
	}
	state := "is built already (--force builds it again)"
	if built {
		state = "built"
	}
	fmt.Fprintf(a.stdout, "%s: %s\n  Linux %s for %s, %d modules, %d programs\n", shown(i.Dir), state, i.Manifest.Kernel, i.Manifest.Arch,
		len(i.Manifest.Modules), i.Manifest.Applets)
	return nil
}
