package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/guest/image"
)

func (a *app) guestFetchCommand() *cobra.Command {
	var o image.FetchOptions
	cmd := &cobra.Command{
		Use:   "fetch FILE|URL (--sums FILE|URL | --sha256 HEX)",
		Short: "Install an image that was built elsewhere: that of a release",
		Long: "Install the archive of an image, which replaces one that is there: a file of a release, or one that\n" +
			"'sandbox guest build --archive' has made. Its checksum is compared before anything is read out of it: it is the\n" +
			"one of --sha256, or that in a list like a release's checksums.txt. A list comes from a file, or by https.",
		Args: checkArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.From = args[0]
			return a.guestFetch(cmd, o)
		},
	}
	imageFlags(cmd, &o.Arch, &o.Dir)
	cmd.Flags().StringVar(&o.SHA256, "sha256", "", "the archive's SHA-256, in `hex`")
	cmd.Flags().StringVar(&o.Sums, "sums", "", "a `file or URL` with a line for the archive, as sha256sum writes it")
	return cmd
}

// fetchedImage is what guest fetch prints.
type fetchedImage struct {
	Dir string `json:"dir"`
	image.Manifest
}

func (a *app) guestFetch(cmd *cobra.Command, o image.FetchOptions) error {
	if err := checkImage(o.Arch, &o.Dir); err != nil {
		return err
	}
	if (o.SHA256 == "") == (o.Sums == "") {
		return console.Usagef("say what its checksum is, by one of them: --sums checksums.txt (of the release), --sha256 HEX")
	}
	line := console.ProgressOn(a.stderr, "fetching", func(done, total int64) string {
		if total < 0 {
			return console.Bytes(done)
		}
		return console.Bytes(done) + " of " + console.Bytes(total)
	})
	o.Report = line.Report
	i, err := image.Fetch(cmd.Context(), o)
	line.End()
	if err != nil {
		return err
	}
	if a.flags.json {
		return a.out.JSON(fetchedImage{Dir: i.Dir, Manifest: i.Manifest})
	}
	a.sayImage(i, "installed")
	return nil
}

// archiveFile is an archive that guest build has written.
type archiveFile struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// writeArchive writes it beside its place first: nobody finds half of it.
func writeArchive(i image.Image, path string) (_ *archiveFile, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".archive-")
	if err != nil {
		return nil, fmt.Errorf("--archive: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	sha := sha256.New()
	if err := i.Pack(io.MultiWriter(f, sha)); err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return nil, fmt.Errorf("--archive: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return nil, fmt.Errorf("--archive: %w", err)
	}
	return &archiveFile{Path: path, Bytes: st.Size(), SHA256: hex.EncodeToString(sha.Sum(nil))}, nil
}
