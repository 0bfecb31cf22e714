package agents

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// FoundClients is what of a client is on this machine, and what of ours is in its files.
type FoundClients struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Found: there is the program in PATH, or the folder of its settings.
	Found   bool   `json:"found"`
	Program string `json:"program,omitempty"`
	Folder  string `json:"folder,omitempty"`

	MCP   Integration `json:"mcp"`
	Shell Integration `json:"shell"`
}

// Integration is what is in one of a client's files.
type Integration struct {
	// File is where ours is, or would be; empty if the client has no such thing.
	File      string `json:"file,omitempty"`
	Installed bool   `json:"installed"`
	// Why is why it cannot be installed, or not be told.
	Why string `json:"why,omitempty"`
}

// LookClients finds out about all clients. program is the path by which files start this one, name
// what its server is called there. It writes nothing.
func LookClients(p Places, s Scope, name, program string) []FoundClients {
	var list []FoundClients
	for _, c := range AllClients() {
		f := FoundClients{Name: c.Name, Title: c.Title, Program: onPath(c.programs), Folder: c.settings(p)}
		if st, err := os.Stat(f.Folder); err != nil || !st.IsDir() {
			f.Folder = ""
		}
		f.Found = f.Program != "" || f.Folder != ""
		want := Want{Name: name, Server: Server{Command: program}, Hook: program}
		server, err := c.server(p, s, name, want.Server, false)
		f.MCP = integration(server, within(p, s), err)
		if why := c.NoShell(p); why != "" {
			err = errors.New(why)
		} else {
			server, err = c.hookPart(p, s, want)
		}
		f.Shell = integration(server, within(p, s), err)
		list = append(list, f)
	}
	return list
}

// within is the folder that files of a scope must lie in; empty: any.
func within(p Places, s Scope) string {
	if s == Project {
		return p.Project
	}
	return ""
}

// onPath is the first of the programs that PATH leads to.
func onPath(programs []string) string {
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil && filepath.IsAbs(path) {
			return path
		}
	}
	return ""
}

// integration looks whether what a part adds is in its file.
func integration(p Part, within string, err error) Integration {
	if err != nil {
		return Integration{Why: err.Error()}
	}
	in := Integration{File: p.File}
	real, err := target(p.File, within)
	if errors.Is(err, fs.ErrNotExist) {
		return in
	}
	var text []byte
	if err == nil {
		text, err = present(real)
	}
	if err != nil {
		in.Why = err.Error()
		return in
	}
	if text == nil {
		return in
	}
	left, err := p.remove(text)
	switch {
	case errors.Is(err, ErrForeign):
		in.Why = "what is there under that name was not made by this program"
	case err != nil:
		in.Why = strings.TrimSuffix(described(real, err).Error(), "; nothing was changed")
	default:
		in.Installed = left == nil || string(left) != string(text)
	}
	return in
}
