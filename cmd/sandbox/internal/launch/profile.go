package launch

import (
	"fmt"
	"os"
	"slices"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

// ProfileEnv are the variables that a profile passes on; none without a profile.
func ProfileEnv(name string) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	_, found, err := findProfile(name)
	if err != nil {
		return nil, err
	}
	return slices.Clone(found.Profile.Env), nil
}

// findProfile reads a profile, and tells where it looked.
func findProfile(name string) (source config.ProfileSource, found config.FoundProfile, err error) {
	if source, err = config.ProfilesHere(); err != nil {
		return source, found, err
	}
	if found, err = source.Find(name); err != nil {
		err = console.Usage(err)
	}
	return source, found, err
}

// withProfile is the launcher with what its profile adds to the configuration, for a
// session on these folders. What the organisation has locked stays.
func (l *Launcher) withProfile(dirs []api.Directory) (*Launcher, error) {
	name := l.Conf.Profile
	if name == "" || l.Conf.Isolation == "none" {
		return l, nil
	}
	source, found, err := findProfile(name)
	if err != nil {
		return nil, err
	}
	with := *l
	with.Conf = l.Conf.Clone()
	set := func(flag string, values []string) {
		if err == nil && len(values) > 0 {
			err = with.Conf.SetFor(flag, values, "profile")
		}
	}
	if l.Conf.Origin("network.policy")[0].Level == config.FromDefault && len(found.Profile.Hosts) > 0 {
		set("network", []string{"allowlist"})
	}
	set("allow-host", found.Profile.Hosts)
	if l.Conf.Isolation == "vm" {
		l.Remark("sandbox: profile " + name + ": a virtual machine has only the working folders; the agent's own configuration is not in it")
		return &with, err
	}
	var folders []string
	for _, d := range dirs {
		folders = append(folders, d.Path)
	}
	write, show, placesErr := source.Places(found.Profile, folders)
	if placesErr != nil {
		return nil, console.Usage(placesErr)
	}
	own := slices.DeleteFunc(slices.Clone(write), rootsOwn)
	beside := slices.DeleteFunc(write, func(path string) bool { st, err := os.Stat(path); return !rootsOwn(path) || err != nil || !st.IsDir() })
	for _, path := range beside {
		l.Remark(fmt.Sprintf("sandbox: profile %s: %s is root's, and commands are not root: what they write there is kept beside it ('sandbox overlay ls')", name, console.Shown(path)))
	}
	set("rw", own)
	set("overlay", beside)
	set("show", show)
	return &with, err
}
