package agents

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Server is what the client starts.
type Server struct {
	Command string
	Args    []string
}

// Entry is the server as this client's file has it. It fails for an argument
// in which the client would replace something.
func (c Client) Entry(command string, args []string) (Server, error) {
	for _, a := range append([]string{command}, args...) {
		rest := a
		if c.Workspace != "" {
			rest = strings.ReplaceAll(a, c.Workspace, "")
		}
		for _, v := range c.servers.variables {
			if strings.Contains(rest, v) {
				return Server{}, fmt.Errorf("%s would replace what begins with %s in %q", c.Title, v, a)
			}
		}
	}
	return Server{Command: command, Args: args}, nil
}

// entryMember is one member of a server's entry, as JSON.
type entryMember struct {
	key   string
	value []byte
}

// members are what we write into a server's entry, in the client's form.
func (c Client) members(s Server) ([]entryMember, error) {
	type pair struct {
		key   string
		value any
	}
	pairs := []pair{{"command", s.Command}, {"args", s.Args}}
	switch c.servers.form {
	case typed:
		pairs = slices.Insert(pairs, 0, pair{"type", "stdio"})
	case listed:
		pairs = []pair{{"type", "local"}, {"command", append([]string{s.Command}, s.Args...)}, {"enabled", true}}
	}
	var out []entryMember
	for _, p := range pairs {
		value, err := encode(p.value)
		if err != nil {
			return nil, err
		}
		out = append(out, entryMember{p.key, value})
	}
	return out, nil
}

// entry is the whole entry as JSON.
func (c Client) entry(s Server) ([]byte, error) {
	members, err := c.members(s)
	if err != nil {
		return nil, err
	}
	out := []byte("{")
	for i, m := range members {
		key, err := encode(m.key)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = slices.Concat(out, key, []byte(":"), m.value)
	}
	return append(out, '}'), nil
}

// server is the part of the client's file with an MCP server.
func (c Client) server(p Places, scope Scope, name string, s Server, force bool) (Part, error) {
	file, err := c.servers.file(p, scope)
	if err != nil {
		return Part{}, err
	}
	part := Part{What: name, File: file, mode: 0o600} // it may come to hold keys of other servers
	if c.servers.form == inTable {
		t := table{section: c.servers.section, name: name, server: s, force: force}
		part.add, part.remove = t.add, t.remove
		return part, nil
	}
	part.add = func(text []byte) ([]byte, error) { return c.addServer(text, name, s, force) }
	part.remove = func(text []byte) ([]byte, error) { return c.removeServer(text, name, s.Command, force) }
	part.prune = func(text []byte) ([][]byte, error) { return pruned(text, c.dialect, c.servers.section) }
	return part, nil
}

// addServer puts the server into the text of the client's file. Of an entry that is
// there already all other members stay. It returns text itself when there is
// nothing to do, and ErrForeign unless force is set.
func (c Client) addServer(text []byte, name string, s Server, force bool) ([]byte, error) {
	section := c.servers.section
	have, err := jsoncGet(text, c.dialect, section, name)
	if err != nil {
		return nil, err
	}
	if have != nil && !c.ours(have, s.Command) && !force {
		return nil, ErrForeign
	}
	if have == nil || !c.ours(have, s.Command) {
		value, err := c.entry(s)
		if err != nil {
			return nil, err
		}
		return jsoncSet(text, c.dialect, value, section, name)
	}
	members, err := c.members(s)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if text, err = jsoncSet(text, c.dialect, m.value, section, name, m.key); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// removeServer takes the entry away. It returns text itself when there is none.
func (c Client) removeServer(text []byte, name, command string, force bool) ([]byte, error) {
	have, err := jsoncGet(text, c.dialect, c.servers.section, name)
	if err != nil || have == nil {
		return text, err
	}
	if !force && !c.ours(have, command) {
		return nil, ErrForeign
	}
	return jsoncRemove(text, c.dialect, c.servers.section, name)
}

// ours reports whether an entry starts this program, by whatever path.
func (c Client) ours(entry []byte, command string) bool {
	var s struct {
		Command json.RawMessage
		Args    []string
	}
	if json.Unmarshal(entry, &s) != nil {
		return false
	}
	var words []string
	if c.servers.form == listed {
		_ = json.Unmarshal(s.Command, &words) // no words then
	} else {
		words = make([]string, 1)
		_ = json.Unmarshal(s.Command, &words[0]) // an empty one then
		words = append(words, s.Args...)
	}
	return starts(words, "serve", command)
}

// starts reports whether words start this program, whatever its path, with a
// subcommand.
func starts(words []string, sub, command string) bool {
	if len(words) < 2 || words[1] != sub {
		return false
	}
	base := func(path string) string {
		path = path[strings.LastIndexAny(path, `/\`)+1:]
		return strings.TrimSuffix(path, ".exe")
	}
	return slices.Contains([]string{"sandbox", base(command)}, base(words[0]))
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
