package launch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/hypervisor"
)

// containers allows containers inside. Landlock, which a mediated bridge needs, denies every mount.
func (l *Launcher) containers(cfg *api.Config) error {
	switch {
	case !l.Conf.Jail.Containers:
		return nil
	case cfg.Runtime.Name() != "jail":
		return console.Usagef("--containers needs --isolation jail, and here it would be %s", cfg.Runtime.Name())
	case cfg.Bridge == hypervisor.BridgeMediated:
		return console.Usagef("--containers needs --bridge fuse: leave out --bridge mediated")
	}
	cfg.Bridge, cfg.Containers = hypervisor.BridgeFUSE, true
	return nil
}

// gate sets the directories whose names a person has to allow.
func (l *Launcher) gate(cfg *api.Config) error {
	flag := "--gate"
	switch cfg.Dynamic = l.Conf.Jail.Mode == "dynamic"; {
	case cfg.Dynamic:
		flag = "--mode dynamic"
	case len(l.Conf.Jail.Gate) == 0:
		return nil
	}
	if cfg.Runtime.Name() != "jail" {
		return console.Usagef("%s needs --isolation jail, and here it would be %s", flag, cfg.Runtime.Name())
	}
	for _, named := range l.Conf.Jail.Gate {
		path, err := filepath.Abs(named)
		if err == nil {
			path, err = filepath.EvalSymlinks(path)
		}
		if err != nil {
			return console.Usage(err)
		}
		if st, err := os.Stat(path); err != nil || !st.IsDir() {
			return console.Usage(errors.Join(console.Usagef("--gate %s: it is not a directory", named), err))
		}
		for _, system := range []string{"/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp"} {
			if path == "/" || path == system || strings.HasPrefix(path, system+"/") && system != "/usr" && system != "/tmp" && system != "/var/tmp" {
				return console.Usagef("--gate %s: programs cannot run without it; name directories with data", named)
			}
		}
		for _, d := range cfg.Directories {
			if path == d.Path || strings.HasPrefix(path, d.Path+"/") {
				return console.Usagef("--gate %s: it lies in the working folder %s, which commands may read", named, d.Path)
			}
		}
		cfg.Gate = append(cfg.Gate, path)
	}
	return nil
}

// devices gives commands devices of the host.
func (l *Launcher) devices(cfg *api.Config) error {
	if cfg.Devices = l.Conf.Jail.Devices; len(cfg.Devices) > 0 && cfg.Runtime.Name() != "jail" {
		return console.Usagef("--device needs --isolation jail, and here it would be %s", cfg.Runtime.Name())
	}
	return nil
}
