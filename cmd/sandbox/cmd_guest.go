package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/guest/image"
)

func (a *app) guestCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "guest",
		Short: "Make what virtual machines boot, throw away what they keep",
		Args:  checkArgs(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.guestListCommand(), a.guestBuildCommand(), a.guestFetchCommand(), a.guestResetCommand())
	return cmd
}

func (a *app) guestBuildCommand() *cobra.Command {
	var o image.Options
	var root rootOptions
	var force bool
	var archive string
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Download a kernel and make the image that virtual machines boot",
		Long: "Download a kernel and a busybox from the distribution (apt, no root needed) and make the image that virtual\n" +
			"machines boot. It is kept in the user's cache directory; an image that is there and whole stays. With --archive it\n" +
			"is written to a file, too, which 'sandbox guest fetch' takes on another machine.\n\n" +
			"With --rootfs debian it makes a Debian system beside it, which machines have from then on: compilers, git,\n" +
			"python3 and what is named with --include. That needs mmdebstrap and squashfs-tools.",
		Args: checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Logger, root.o.Logger = a.log, a.log
			return a.guestBuild(cmd, o, root, force, archive)
		},
	}
	imageFlags(cmd, &o.Arch, &o.Dir)
	f := cmd.Flags()
	f.BoolVar(&force, "force", false, "build again, with the newest packages; with --rootfs only that")
	f.StringVar(&archive, "archive", "", "write the image to a `file`, too, for other machines")
	f.StringVar(&root.kind, "rootfs", "", "make a root file system too: debian")
	f.StringSliceVar(&root.o.Include, "include", nil, "`packages` to have in it beside the usual ones (repeatable)")
	f.BoolVar(&root.o.Minimal, "minimal", false, "no packages in it but Debian's essential ones and those of --include")
	f.StringVar(&root.o.Suite, "suite", "", "the Debian `release` to take: this system's, or stable, if not given")
	f.StringVar(&root.o.Mirror, "mirror", "", "the `URL` of a mirror instead of Debian's own")
	f.BoolVar(&o.Generic, "generic", false, "the distribution's general kernel: larger, with more drivers")
	f.StringVar(&o.KernelPackage, "kernel-package", "", "a .deb `file` to take the kernel from")
	f.StringVar(&o.BusyboxPackage, "busybox-package", "", "a .deb `file` to take busybox from")
	return cmd
}

// builtImage is what guest build prints.
type builtImage struct {
	Dir   string `json:"dir"`
	Built bool   `json:"built"` // now, not before
	image.Manifest
	Archive *archiveFile `json:"archive,omitempty"`
	RootFS  *builtRoot   `json:"rootfs,omitempty"`
}

func (a *app) guestBuild(cmd *cobra.Command, o image.Options, root rootOptions, force bool, archive string) error {
	if err := checkImage(o.Arch, &o.Dir); err != nil {
		return err
	}
	if err := root.check(); err != nil {
		return console.Usage(err)
	}
	i, err := image.Open(o.Dir, o.Arch)
	if err == nil {
		err = i.Verify()
	}
	other := err == nil && o.Generic && !i.Manifest.Generic()
	out := builtImage{Built: force && root.kind == "" || other || errors.Is(err, image.ErrNone)}
	if out.Built {
		a.note("building the image for " + o.Arch + "; this downloads about 30 MB")
		line := console.ProgressOn(a.stderr, "building", nil)
		i, err = image.Build(cmd.Context(), o)
		line.End()
	}
	if err != nil {
		return err
	}
	out.Dir, out.Manifest = i.Dir, i.Manifest
	if archive != "" {
		if out.Archive, err = writeArchive(i, archive); err != nil {
			return err
		}
	}
	if root.kind != "" {
		root.o.Dir, root.o.Arch = o.Dir, o.Arch
		if out.RootFS, err = a.rootBuild(cmd.Context(), root.o, force); err != nil {
			return err
		}
	}
	if a.flags.json {
		return a.out.JSON(out)
	}
	a.sayImage(i, builtText(out.Built))
	if f := out.Archive; f != nil {
		fmt.Fprintf(a.out, "%s: %s\n  SHA-256 %s\n", console.Shown(f.Path), console.Bytes(f.Bytes), f.SHA256)
	}
	if r := out.RootFS; r != nil {
		fmt.Fprintf(a.out, "%s: %s\n  Debian %s, %d packages, %s\n", console.Shown(r.Dir), builtText(r.Built), r.Suite, len(r.Packages), console.Bytes(r.File.Bytes))
	}
	return nil
}

// sayImage tells people of an image.
func (a *app) sayImage(i image.Image, what string) {
	fmt.Fprintf(a.out, "%s: %s\n  Linux %s for %s, %d modules, %d programs\n", console.Shown(i.Dir), what, i.Manifest.Kernel, i.Manifest.Arch,
		len(i.Manifest.Modules), i.Manifest.Applets)
}

// checkImage looks at the flags that say which image is meant. An empty dir becomes the user's.
func checkImage(arch string, dir *string) (err error) {
	if arch != "amd64" && arch != "arm64" {
		return console.Usagef("--arch: %q is not one of amd64, arm64", arch)
	}
	if *dir == "" {
		*dir, err = image.DefaultDir()
	}
	return err
}

// imageFlags are those that say which image is meant.
func imageFlags(cmd *cobra.Command, arch, dir *string) {
	cmd.Flags().StringVar(arch, "arch", runtime.GOARCH, "the guest's architecture: amd64 or arm64")
	cmd.Flags().StringVar(dir, "image-dir", "", "`folder` of images instead of the one in the user's cache")
	// It fails only for a flag that is not there.
	_ = cmd.RegisterFlagCompletionFunc("arch", cobra.FixedCompletions([]string{"amd64", "arm64"}, cobra.ShellCompDirectiveNoFileComp))
}

// note tells people what takes long.
func (a *app) note(text string) {
	if !a.flags.json {
		fmt.Fprintln(a.stderr, text)
	}
}

func builtText(now bool) string {
	if now {
		return "built"
	}
	return "is built already (--force builds it again)"
}

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
		line := console.ProgressOn(a.stderr, "building", nil)
		r, err = image.BuildRootFS(ctx, o)
		line.End()
	}
	if err != nil {
		return nil, err
	}
	return &builtRoot{Dir: r.Dir, Built: built, RootManifest: r.Manifest}, nil
}
