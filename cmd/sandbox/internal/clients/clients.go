package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/jsonc"
)

// Scope says for whom a server is registered.
type Scope string

// The scopes.
const (
	User    Scope = "user"
	Project Scope = "project"
)

// Client is one program that starts MCP servers.
type Client struct {
	Name, Title string
	// Section of its file has the servers by their names.
	Section string
	dialect jsonc.Dialect
	// typed entries say that they are started and spoken to over stdio.
	typed bool
	// Workspace is what the client replaces by the folder that is open in it;
	// empty if it starts servers in that folder instead.
	Workspace string
	// Homeless clients have no folder open: working folders must be named.
	Homeless bool
	file     func(Places, Scope) (string, error)
}

// Places are the directories that clients' files are in.
type Places struct {
	Home, Config, Project string
}

// Here returns the places of this user, with the current directory as the
// project.
func Here() (p Places, err error) {
	if p.Home, err = os.UserHomeDir(); err != nil {
		return p, err
	}
	if p.Config, err = os.UserConfigDir(); err != nil {
		return p, err
	}
	p.Project, err = os.Getwd()
	return p, err
}

// All are the clients that are known.
func All() []Client {
	inHome := func(user, project []string) func(Places, Scope) (string, error) {
		return func(p Places, s Scope) (string, error) {
			if s == Project {
				return filepath.Join(append([]string{p.Project}, project...)...), nil
			}
			return filepath.Join(append([]string{p.Home}, user...)...), nil
		}
	}
	return []Client{
		{
			Name: "claude-code", Title: "Claude Code", Section: "mcpServers", typed: true,
			file: inHome([]string{".claude.json"}, []string{".mcp.json"}),
		},
		{
			Name: "claude-desktop", Title: "Claude Desktop", Section: "mcpServers", Homeless: true,
			file: func(p Places, s Scope) (string, error) {
				if s == Project {
					return "", errors.New("there are no projects in Claude Desktop: use --scope user")
				}
				return filepath.Join(p.Config, "Claude", "claude_desktop_config.json"), nil
			},
		},
		{
			Name: "cursor", Title: "Cursor", Section: "mcpServers", typed: true, dialect: jsonc.Dialect{Comments: true},
			Workspace: "${workspaceFolder}", file: inHome([]string{".cursor", "mcp.json"}, []string{".cursor", "mcp.json"}),
		},
		{
			Name: "vscode", Title: "VS Code", Section: "servers", typed: true, dialect: jsonc.Dialect{Comments: true},
			Workspace: "${workspaceFolder}",
			file: func(p Places, s Scope) (string, error) {
				if s == Project {
					return filepath.Join(p.Project, ".vscode", "mcp.json"), nil
				}
				return filepath.Join(p.Config, "Code", "User", "mcp.json"), nil
			},
		},
	}
}

// Names are the clients' names.
func Names() []string {
	var names []string
	for _, c := range All() {
		names = append(names, c.Name)
	}
	return names
}

// Find returns the client of that name.
func Find(name string) (Client, error) {
	for _, c := range All() {
		if c.Name == name {
			return c, nil
		}
	}
	return Client{}, fmt.Errorf("%q is not one of %s", name, strings.Join(Names(), ", "))
}

// File is where the client keeps its servers.
func (c Client) File(p Places, s Scope) (string, error) { return c.file(p, s) }

// Server is what the client starts.
type Server struct {
	Type    string   `json:"type,omitempty"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

// Entry is the server as this client's file has it. It fails for an argument
// in which the client would replace something.
func (c Client) Entry(command string, args []string) (Server, error) {
	for _, a := range append([]string{command}, args...) {
		rest := a
		if c.Workspace != "" {
			rest = strings.ReplaceAll(a, c.Workspace, "")
		}
		if strings.Contains(rest, "${") {
			return Server{}, fmt.Errorf("%s would replace the ${...} in %q", c.Title, a)
		}
	}
	s := Server{Command: command, Args: args}
	if c.typed {
		s.Type = "stdio"
	}
	return s, nil
}

// Snippet is the part of the file that has the server.
func (c Client) Snippet(name string, s Server) ([]byte, error) {
	value, err := encode(s)
	if err != nil {
		return nil, err
	}
	return jsonc.Set(nil, c.dialect, value, c.Section, name)
}

// ErrForeign is an entry of the same name that does not start this program.
var ErrForeign = errors.New("it is not an entry of this program")

// Add puts the server into the text of the client's file. Of an entry that is
// there already all other members stay. It returns text itself when there is
// nothing to do, and ErrForeign unless force is set.
func (c Client) Add(text []byte, name string, s Server, force bool) ([]byte, error) {
	have, err := jsonc.Get(text, c.dialect, c.Section, name)
	if err != nil {
		return nil, err
	}
	if have == nil {
		value, err := encode(s)
		if err != nil {
			return nil, err
		}
		return jsonc.Set(text, c.dialect, value, c.Section, name)
	}
	if !ours(have, s.Command) {
		if !force {
			return nil, ErrForeign
		}
		value, err := encode(s)
		if err != nil {
			return nil, err
		}
		return jsonc.Set(text, c.dialect, value, c.Section, name)
	}
	for _, m := range []struct {
		key   string
		value any
	}{{"type", s.Type}, {"command", s.Command}, {"args", s.Args}} {
		if m.value == "" {
			continue
		}
		value, err := encode(m.value)
		if err != nil {
			return nil, err
		}
		if text, err = jsonc.Set(text, c.dialect, value, c.Section, name, m.key); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// Remove takes the entry away. It returns text itself when there is none.
func (c Client) Remove(text []byte, name, command string, force bool) ([]byte, error) {
	have, err := jsonc.Get(text, c.dialect, c.Section, name)
	if err != nil || have == nil {
		return text, err
	}
	if !force && !ours(have, command) {
		return nil, ErrForeign
	}
	return jsonc.Remove(text, c.dialect, c.Section, name)
}

// ours reports whether an entry starts this program, by whatever path.
func ours(entry []byte, command string) bool {
	var s Server
	if json.Unmarshal(entry, &s) != nil || len(s.Args) == 0 {
		return false
	}
	base := func(path string) string {
		path = path[strings.LastIndexAny(path, `/\`)+1:]
		return strings.TrimSuffix(path, ".exe")
	}
	return s.Args[0] == "serve" && slices.Contains([]string{"sandbox", base(command)}, base(s.Command))
}

func encode(v any) ([]byte, error) {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(out.String(), "\n")), nil
}
