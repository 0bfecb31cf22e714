package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/programs"
)

func sshAgent() (api.Agent, error) {
	variable := hypervisor.AgentVariable("ssh")
	socket := os.Getenv(variable)
	if !isSocket(socket) {
		return api.Agent{}, fmt.Errorf("%s names no socket of an agent (%s): start one with 'eval $(ssh-agent)', and give it keys with ssh-add", variable, console.Shown(socket))
	}
	return api.Agent{Socket: socket}, nil
}

func isSocket(path string) bool {
	st, err := os.Stat(path)
	return err == nil && filepath.IsAbs(path) && st.Mode().Type() == os.ModeSocket
}

// agents lets programs inside ask for the use of keys. What ssh needs beside the agent, and what is no secret, is shown: public keys, and the keys of servers that
// the user knows.
func (l *Launcher) agents(cfg *api.Config) error {
	for _, pattern := range l.Conf.Jail.AllowUse {
		if _, err := approval.AllowedUse(pattern).Checked(""); err != nil {
			return console.Usage(err)
		}
		if len(l.Conf.Jail.Agents) == 0 {
			return console.Usagef("--allow-use %s has no effect: there is no agent; add --agent ssh or --agent gpg", console.Shown(pattern))
		}
		cfg.AllowUse = append(cfg.AllowUse, pattern)
	}
	for _, name := range l.Conf.Jail.Agents {
		find := sshAgent
		if name == "gpg" {
			find = func() (api.Agent, error) { return gpgAgent(writable(*cfg)) }
		}
		agent, err := find()
		if err != nil {
			return console.Usagef("--agent %s: %v", name, err)
		}
		if cfg.Agents == nil {
			cfg.Agents = make(map[string]api.Agent)
		}
		cfg.Agents[name] = agent
	}
	if home, err := os.UserHomeDir(); err == nil && cfg.Agents["ssh"].Socket != "" {
		for _, pattern := range []string{"known_hosts", "known_hosts2", "*.pub"} {
			public, _ := filepath.Glob(filepath.Join(home, ".ssh", pattern)) // the pattern is well-formed but for a strange home
			cfg.Show = append(cfg.Show, public...)
		}
	}
	return nil
}

// Bounds of what gpg is asked.
const (
	gpgPatience = time.Minute
	maxKeyring  = 16 << 20 // bytes of public keys
	maxKeyName  = 100      // bytes
)

// gpgAgent finds the user's gpg-agent, which gpg starts if it does not run, and public keys for gpg inside: no other file of gpg's home directory is read inside.
// Nothing in writable is started for that.
func gpgAgent(writable []string) (api.Agent, error) {
	ctx, cancel := context.WithTimeout(context.Background(), gpgPatience)
	defer cancel()
	gpg, err := programs.Find("gpg", os.Getenv("PATH"), writable)
	if err != nil {
		return api.Agent{}, fmt.Errorf("there is no gpg to ask: install it (Debian: gnupg): %w", err)
	}
	gpgconf, err := programs.Find("gpgconf", os.Getenv("PATH"), writable)
	if err != nil {
		return api.Agent{}, err
	}
	if _, err := output(ctx, gpgconf, "--launch", "gpg-agent"); err != nil {
		return api.Agent{}, err
	}
	text, err := output(ctx, gpgconf, "--list-dirs")
	if err != nil {
		return api.Agent{}, err
	}
	dirs := gpgDirs(text)
	a := api.Agent{Socket: dirs["agent-extra-socket"]} // there the agent refuses most things itself
	if !isSocket(a.Socket) {
		a.Socket = dirs["agent-socket"]
	}
	if !isSocket(a.Socket) {
		return api.Agent{}, errors.New("gpg-agent has no socket that gpgconf knows: start it with 'gpgconf --launch gpg-agent'")
	}
	list, err := output(ctx, gpg, "--batch", "--no-tty", "--with-colons", "--with-keygrip", "--list-keys")
	if err != nil {
		return api.Agent{}, err
	}
	public, err := output(ctx, gpg, "--batch", "--no-tty", "--export-options", "export-minimal", "--export")
	if err != nil {
		return api.Agent{}, err
	}
	if public == "" {
		return api.Agent{}, errors.New("gpg has no keys: make one with 'gpg --quick-gen-key NAME'")
	}
	a.Names, a.Files = keyNames(list), map[string]string{"pubring.gpg": public}
	if trust, err := os.ReadFile(filepath.Join(dirs["homedir"], "trustdb.gpg")); err == nil && len(trust) > 0 && len(trust) <= maxKeyring {
		a.Files["trustdb.gpg"] = string(trust) // without it, good signatures are of unknown validity
	}
	return a, nil
}

// output runs a program of gpg's and returns what it writes.
func output(ctx context.Context, name string, args ...string) (string, error) {
	var said strings.Builder
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", fmt.Errorf("%s cannot be started: %w", name, err)
	}
	text, err := io.ReadAll(io.LimitReader(out, maxKeyring+1))
	large := len(text) > maxKeyring
	if large {
		_ = cmd.Process.Kill()
	}
	if ended := cmd.Wait(); err == nil {
		err = ended
	}
	switch {
	case large:
		return "", fmt.Errorf("%s has more than %d MiB of public keys", name, maxKeyring>>20)
	case err != nil:
		return "", fmt.Errorf("%s %s: %w: %q", name, args[len(args)-1], err, strings.TrimSpace(said.String()))
	}
	return string(text), nil
}

// gpgDirs takes the list of gpgconf's apart: lines of a name and a path, which is percent-encoded.
func gpgDirs(text string) map[string]string {
	dirs := make(map[string]string)
	for line := range strings.Lines(text) {
		name, path, _ := strings.Cut(strings.TrimSpace(line), ":")
		if plain, err := url.PathUnescape(path); err == nil {
			dirs[name] = plain
		}
	}
	return dirs
}

// keyNames takes a list of keys with colons apart: the first user's name of each key, by the grips of it and of its subkeys.
func keyNames(list string) map[string]string {
	names, name, grips := make(map[string]string), "", []string(nil)
	end := func() {
		for _, g := range grips {
			names[g] = name
		}
		name, grips = "", nil
	}
	for line := range strings.Lines(list) {
		field := strings.Split(strings.TrimSpace(line), ":")
		switch {
		case field[0] == "pub":
			end()
		case len(field) < 10:
		case field[0] == "grp":
			grips = append(grips, strings.ToUpper(field[9]))
		case field[0] == "uid" && name == "" && field[1] != "r":
			name = unquoted(field[9])
		}
	}
	end()
	return names
}

// unquoted writes out the \xNN of a list with colons, and cuts what is too long.
func unquoted(text string) string {
	var b strings.Builder
	for text != "" && b.Len() < maxKeyName {
		if len(text) >= 4 && text[:2] == `\x` {
			if n, err := strconv.ParseUint(text[2:4], 16, 8); err == nil {
				b.WriteByte(byte(n))
				text = text[4:]
				continue
			}
		}
		b.WriteByte(text[0])
		text = text[1:]
	}
	return strings.ToValidUTF8(b.String(), "?")
}
