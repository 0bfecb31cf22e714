package wine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/codeagent/sandbox/tests/kit/wine/outside"
)

// Outside makes a program of Linux look like one of Windows, and returns its path there. It runs on the host, as nobody, and its
// arguments' paths are translated. The shim is tests/cmd/outside, built for Windows.
func (m *Machine) Outside(shim, program string) (string, error) {
	code, err := os.ReadFile(shim)
	if err != nil {
		return "", err
	}
	server := &outside.Server{
		Program: program, Path: m.HostPath, Credential: &syscall.Credential{Uid: nobody, Gid: nobody, Groups: []uint32{}},
	}
	address, err := server.Start()
	if err != nil {
		return "", err
	}
	m.mu.Lock()
	m.servers = append(m.servers, server)
	m.mu.Unlock()
	b, err := json.Marshal(address)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(m.prefix(), "drive_c", "outside")
	exe := filepath.Join(dir, filepath.Base(program)+".exe")
	err = errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(exe, code, 0o755), os.WriteFile(exe+".json", b, 0o644))
	return `C:\outside\` + filepath.Base(exe), err
}

// HostPath returns what a path of Windows is on the host. Names that differ only in case are one name there.
func (m *Machine) HostPath(windows string) (string, error) {
	drive, rest, ok := strings.Cut(windows, ":")
	rest = strings.ReplaceAll(rest, `\`, "/")
	if !ok || len(drive) != 1 || !strings.HasPrefix(rest, "/") {
		return "", fmt.Errorf("%s is no path with a drive", windows)
	}
	host := "/"
	switch strings.ToLower(drive) {
	case "z":
	case "c":
		host = filepath.Join(m.prefix(), "drive_c")
	default:
		return "", fmt.Errorf("there is no drive %s", drive)
	}
	for name := range strings.SplitSeq(path.Clean(rest), "/") {
		host = filepath.Join(host, inAnyCase(host, name))
	}
	return host, nil
}

// inAnyCase returns the name in dir that is this one for Windows, or the name.
func inAnyCase(dir, name string) string {
	if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
		return name
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.EqualFold(e.Name(), name) {
			return e.Name()
		}
	}
	return name
}
