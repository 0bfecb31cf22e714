package agents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Scope says for whom something is installed.
type Scope string

// The scopes.
const (
	User    Scope = "user"
	Project Scope = "project"
)

// Client is one program that has a list of MCP servers, a shell tool, or both.
type Client struct {
	Name, Title string
	// Workspace is what the client replaces by the folder that is open in it;
	// empty if it starts servers in that folder instead.
	Workspace string
	// Homeless clients have no folder open: working folders must be named.
	Homeless bool
	noShell  string // see [Client.NoShell]
	// Afterwards is what the user has to do before a hook runs; empty: nothing.
	Afterwards string

	// programs are the names of its program, settings the folder that it makes.
	programs []string
	settings func(Places) string

	dialect jsoncDialect
	servers servers
	hook    hook
	undo    undoCommand
}

// servers is a client's list of MCP servers.
type servers struct {
	file func(Places, Scope) (string, error)
	// section of the file has the servers by their names.
	section string
	form    form
	// variables are the beginnings of what the client would replace in an argument.
	variables []string
}

// form is how a client writes a server down.
type form int

const (
	plain   form = iota // command and args
	typed               // the same, and a type
	listed              // one list, a type, and whether it is enabled
	inTable             // command and args, in a table of a TOML file
)

// Places are the directories that clients' files are in.
type Places struct {
	Home, Config, Project string
	// Windows: these are on Windows.
	Windows bool
	// Codex is the directory of Codex, XDG that for programs that go by
	// XDG_CONFIG_HOME on every system.
	Codex, XDG string
}

// ClientsHere returns the places of this user, with the current directory as the
// project.
func ClientsHere() (p Places, err error) {
	if p.Home, err = os.UserHomeDir(); err != nil {
		return p, err
	}
	if p.Config, err = os.UserConfigDir(); err != nil {
		return p, err
	}
	p.Windows = runtime.GOOS == "windows"
	if p.Codex = os.Getenv("CODEX_HOME"); !filepath.IsAbs(p.Codex) {
		p.Codex = filepath.Join(p.Home, ".codex")
	}
	if p.XDG = os.Getenv("XDG_CONFIG_HOME"); !filepath.IsAbs(p.XDG) {
		p.XDG = filepath.Join(p.Home, ".config")
	}
	p.Project, err = os.Getwd()
	return p, err
}

// NoShell says why nothing routes the client's shell tool there; empty if something does.
func (c Client) NoShell(p Places) string {
	if c.noShell == "" && p.Windows {
		return "on Windows its shell may be PowerShell or cmd, or Git's bash, which rewrites arguments: the hook's command lines are not for these; use --mcp"
	}
	return c.noShell
}

// either is a file for each scope; the user's is absolute, the project's below it.
func either(user func(Places) string, project ...string) func(Places, Scope) (string, error) {
	return func(p Places, s Scope) (string, error) {
		if s == Project {
			return filepath.Join(append([]string{p.Project}, project...)...), nil
		}
		return user(p), nil
	}
}

func inHome(words ...string) func(Places) string {
	return func(p Places) string { return filepath.Join(append([]string{p.Home}, words...)...) }
}

func inCodex(words ...string) func(Places) string {
	return func(p Places) string { return filepath.Join(append([]string{p.Codex}, words...)...) }
}

func inConfig(words ...string) func(Places) string {
	return func(p Places) string { return filepath.Join(append([]string{p.Config}, words...)...) }
}

func inXDG(words ...string) func(Places) string {
	return func(p Places) string { return filepath.Join(append([]string{p.XDG}, words...)...) }
}

// AllClients are the clients that are known.
func AllClients() []Client {
	return []Client{
		{
			Name: "claude-code", Title: "Claude Code",
			programs: []string{"claude"}, settings: inHome(".claude"),
			servers: servers{either(inHome(".claude.json"), ".mcp.json"), "mcpServers", typed, []string{"${"}},
			hook:    hook{either(inHome(".claude", "settings.json"), ".claude", "settings.json"), grouped, "PreToolUse", "Bash"},
			undo:    undoCommand{either(inHome(".claude", "commands", "sandbox-undo.md"), ".claude", "commands", "sandbox-undo.md"), claudeUndo},
		},
		{
			Name: "claude-desktop", Title: "Claude Desktop", Homeless: true,
			programs: []string{"claude-desktop"}, settings: inConfig("Claude"),
			noShell: "it has no shell tool; use --mcp",
			servers: servers{func(p Places, s Scope) (string, error) {
				if s == Project {
					return "", errors.New("there are no projects in Claude Desktop: use --scope user")
				}
				return inConfig("Claude", "claude_desktop_config.json")(p), nil
			}, "mcpServers", plain, []string{"${"}},
		},
		{
			Name: "codex", Title: "Codex",
			programs: []string{"codex"}, settings: inCodex(),
			Afterwards: "Codex runs a hook only after you have reviewed it: start codex and enter /hooks",
			servers:    servers{either(inCodex("config.toml"), ".codex", "config.toml"), "mcp_servers", inTable, nil},
			hook:       hook{either(inCodex("hooks.json"), ".codex", "hooks.json"), grouped, "PreToolUse", "^Bash$"},
			undo:       undoCommand{either(inHome(".agents", "skills", "sandbox-undo", "SKILL.md"), ".agents", "skills", "sandbox-undo", "SKILL.md"), skillUndo},
		},
		{
			Name: "gemini-cli", Title: "Gemini CLI", dialect: jsoncDialect{Comments: true},
			programs: []string{"gemini"}, settings: inHome(".gemini"),
			servers: servers{either(inHome(".gemini", "settings.json"), ".gemini", "settings.json"), "mcpServers", plain, []string{"$"}},
			hook:    hook{either(inHome(".gemini", "settings.json"), ".gemini", "settings.json"), grouped, "BeforeTool", "^run_shell_command$"},
			undo:    undoCommand{either(inHome(".gemini", "commands", "sandbox-undo.toml"), ".gemini", "commands", "sandbox-undo.toml"), geminiUndo},
		},
		{
			Name: "opencode", Title: "opencode", dialect: jsoncDialect{Comments: true},
			programs: []string{"opencode"}, settings: inXDG("opencode"),
			servers: servers{either(inXDG("opencode", "opencode.json"), "opencode.json"), "mcp", listed, []string{"{env:", "{file:"}},
			hook:    hook{either(inXDG("opencode", "plugins", "sandbox.js"), ".opencode", "plugins", "sandbox.js"), plugin, "", ""},
			undo:    undoCommand{either(inXDG("opencode", "commands", "sandbox-undo.md"), ".opencode", "commands", "sandbox-undo.md"), markdownUndo},
		},
		{
			Name: "cursor", Title: "Cursor", dialect: jsoncDialect{Comments: true}, Workspace: "${workspaceFolder}",
			programs: []string{"cursor", "cursor-agent"}, settings: inHome(".cursor"),
			servers: servers{either(inHome(".cursor", "mcp.json"), ".cursor", "mcp.json"), "mcpServers", typed, []string{"${"}},
			hook:    hook{either(inHome(".cursor", "hooks.json"), ".cursor", "hooks.json"), versioned, "preToolUse", "Shell"},
			undo:    undoCommand{either(inHome(".cursor", "commands", "sandbox-undo.md"), ".cursor", "commands", "sandbox-undo.md"), plainUndo},
		},
		{
			Name: "vscode", Title: "VS Code", dialect: jsoncDialect{Comments: true}, Workspace: "${workspaceFolder}",
			programs: []string{"code"}, settings: inConfig("Code"),
			servers: servers{either(inConfig("Code", "User", "mcp.json"), ".vscode", "mcp.json"), "servers", typed, []string{"${"}},
			hook:    hook{either(inHome(".copilot", "hooks", "sandbox.json"), ".github", "hooks", "sandbox.json"), flat, "PreToolUse", ""},
			undo:    undoCommand{either(inConfig("Code", "User", "prompts", "sandbox-undo.prompt.md"), ".github", "prompts", "sandbox-undo.prompt.md"), markdownUndo},
		},
	}
}

// ClientNames are the clients' names.
func ClientNames() []string {
	var names []string
	for _, c := range AllClients() {
		names = append(names, c.Name)
	}
	return names
}

// FindClient returns the client of that name.
func FindClient(name string) (Client, error) {
	for _, c := range AllClients() {
		if c.Name == name {
			return c, nil
		}
	}
	return Client{}, fmt.Errorf("%q is not one of %s", name, strings.Join(ClientNames(), ", "))
}

// ErrForeign is an entry or a file of the same name that is not this program's.
var ErrForeign = errors.New("it is not this program's")
