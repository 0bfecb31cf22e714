package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/launch"
)

// next is the version that this is on the way to: that of the newest section of CHANGELOG.md.
const next = "0.1.0"

// These are set by the Makefile and by a release. What is not set is asked of the build,
// which knows it where Go has found the repository.
var (
	version = next + "-devel"
	commit  string
	date    string
)

type versionInfo struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Revision string `json:"revision,omitempty"`
	Date     string `json:"date,omitempty"`     // the revision's
	Modified bool   `json:"modified,omitempty"` // there were changes that no revision has
	Guest    bool   `json:"embedded_guest"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  checkArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			v := thisVersion()
			v.Guest = len(launch.EmbeddedGuest()) > 0
			if info, ok := debug.ReadBuildInfo(); ok {
				v.stamp(info.Settings)
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
	return versionInfo{
		Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Revision: commit, Date: date, Modified: strings.HasSuffix(version, "-dirty"),
	}
}

// stamp takes what git said when this was built.
func (v *versionInfo) stamp(settings []debug.BuildSetting) {
	if v.Revision != "" {
		return
	}
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Date = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
}

func (v versionInfo) String() string {
	text := fmt.Sprintf("sandbox %s (%s, %s)", v.Version, v.Go, v.Platform)
	if v.Revision != "" {
		text += "\ncommit " + v.Revision + map[bool]string{true: ", with changes"}[v.Modified]
	}
	if v.Date != "" {
		text += "\ndate   " + v.Date
	}
	return text
}
