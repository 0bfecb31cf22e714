package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/socket"
)

// Registration is what a session writes beside its control socket: before it
// makes the socket, so that no socket is left without one, wherever a session
// is killed.
type Registration struct {
	PID         int      `json:"pid"`
	Session     string   `json:"session"`
	Socket      string   `json:"socket"`
	Directories []string `json:"directories"`
	Labels      []string `json:"labels,omitempty"` // one for each directory, or none at all
	// ConfigFiles are those of the session, for who joins it: see [api.Config].
	ConfigFiles []string `json:"config_files,omitempty"`
}

const (
	registrationSuffix = ".json"
	// A registration that is being written has this and its writer's PID for
	// a suffix, until it is whole.
	unfinishedSuffix = registrationSuffix + "."
	// startupTime is how long a session may be registered without a socket. It is
	// counted only where the process is there: it may be another one, to which the
	// number has gone.
	startupTime = time.Minute
)

func registrationFile(runtimeDir, session string) string {
	return filepath.Join(runtimeDir, session+registrationSuffix)
}

// SocketFile is where a session listens.
func SocketFile(runtimeDir, session string) string {
	return filepath.Join(runtimeDir, session+".sock")
}

// Write makes the registration, whole or not at all.
func (r Registration) Write(runtimeDir string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	file := registrationFile(runtimeDir, r.Session)
	unfinished := filepath.Join(runtimeDir, r.Session+unfinishedSuffix+strconv.Itoa(r.PID))
	if err = os.WriteFile(unfinished, b, 0o600); err == nil {
		err = os.Rename(unfinished, file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("register the session: %w", err), os.Remove(unfinished))
	}
	return nil
}

// Unregister takes a session from the list. Its socket goes first.
func Unregister(runtimeDir, session string) {
	file := SocketFile(runtimeDir, session)
	_ = os.Remove(file + socket.Unready)
	_ = os.Remove(file)
	_ = os.Remove(registrationFile(runtimeDir, session))
}

// Registrations lists the sessions that run, by their files in runtimeDir. What
// killed ones have left there is removed.
func Registrations(runtimeDir string) []Registration {
	if runtimeDir == "" {
		return nil
	}
	entries, _ := os.ReadDir(runtimeDir)
	var all []Registration
	for _, e := range entries {
		if session, ok := strings.CutSuffix(e.Name(), registrationSuffix); ok {
			if r, runs := registered(runtimeDir, session); runs {
				all = append(all, r)
			}
		} else if i := strings.LastIndex(e.Name(), unfinishedSuffix); i >= 0 {
			pid, err := strconv.Atoi(e.Name()[i+len(unfinishedSuffix):])
			if err == nil && !processAlive(pid) {
				_ = os.Remove(filepath.Join(runtimeDir, e.Name()))
			}
		}
	}
	return all
}

// Registered lists what is registered in runtimeDir, whether or not somebody
// answers there.
func Registered(runtimeDir string) []api.SessionInfo {
	entries, _ := os.ReadDir(runtimeDir)
	var all []api.SessionInfo
	for _, e := range entries {
		if session, ok := strings.CutSuffix(e.Name(), registrationSuffix); ok {
			if r, _, ok := read(runtimeDir, session); ok {
				all = append(all, api.SessionInfo{Session: r.Session, PID: r.PID, Socket: r.Socket, Directories: r.Directories})
			}
		}
	}
	return all
}

// read returns a session's registration, and when it was written.
func read(runtimeDir, session string) (r Registration, at time.Time, ok bool) {
	file := registrationFile(runtimeDir, session)
	st, err := os.Lstat(file)
	if err != nil || !st.Mode().IsRegular() || st.Size() > 1<<20 {
		return r, at, false
	}
	b, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(b, &r) != nil {
		return r, at, false
	}
	return r, st.ModTime(), true
}

// registered returns the registration of a session that runs. That of a killed
// one is removed.
func registered(runtimeDir, session string) (r Registration, runs bool) {
	r, at, ok := read(runtimeDir, session)
	if !ok {
		return r, false
	}
	_, err := os.Lstat(r.Socket)
	alive := processAlive(r.PID) // or killed, and nobody has waited for it yet
	if alive && answers(r.Socket) {
		return r, true
	}
	if !alive || err == nil || time.Since(at) > startupTime { // else it starts, or ends
		Unregister(runtimeDir, session)
	}
	return r, false
}

// answers reports whether somebody listens: a number of a process may have gone
// to another since.
func answers(path string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, err := socket.Dial(ctx, path)
	if err != nil {
		return !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist)
	}
	_ = c.Close()
	return true
}

// Sessions lists the running sessions that are registered in runtimeDir.
func Sessions(runtimeDir string) []api.SessionInfo {
	var list []api.SessionInfo
	for _, r := range Registrations(runtimeDir) {
		info := api.SessionInfo{Session: r.Session, PID: r.PID, Socket: r.Socket, Directories: r.Directories}
		if len(r.Labels) == len(r.Directories) {
			info.Labels = r.Labels
		}
		list = append(list, info)
	}
	return list
}
