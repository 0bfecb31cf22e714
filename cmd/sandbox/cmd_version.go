package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/guestbin"
)

// version is set by the Makefile.
var version = "devel"

type versionInfo struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Revision string `json:"revision,omitempty"`
	Guest    bool   `json:"embedded_guest"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  checkArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			v := thisVersion()
			v.Guest = len(guestbin.Embedded()) > 0
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v.Revision = s.Value
					}
				}
			}
			if a.flags.json {
				return a.out.JSON(v)
			}
			fmt.Fprintln(a.out, v)
			return nil
		},
	}
}

func thisVersion() versionInfo {
	return versionInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
}

func (v versionInfo) String() string {
	return fmt.Sprintf("sandbox %s (%s, %s)", v.Version, v.Go, v.Platform)
}
