package launch

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/messages/lexical"
)

// gate sets the directories whose names a person has to allow.
func (l *Launcher) gate(cfg *api.Config) error {
	cfg.Dynamic, cfg.Gates = l.Conf.Jail.Mode == "dynamic", nil
	for _, named := range l.Conf.Jail.Gates {
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
			if path == "/" || path == system || lexical.Below(path, system) && system != "/usr" && system != "/tmp" && system != "/var/tmp" {
				return console.Usagef("--gate %s: programs cannot run without it; name directories with data", named)
			}
		}
		for _, d := range cfg.Directories {
			if lexical.Within(path, d.Path) {
				return console.Usagef("--gate %s: it lies in the working folder %s, which commands may read", named, d.Path)
			}
		}
		cfg.Gates = append(cfg.Gates, path)
	}
	return nil
}
