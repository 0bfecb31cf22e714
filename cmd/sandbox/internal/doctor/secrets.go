package doctor

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages/lexical"
)

// Secrets are what is hidden from commands here, and what looks as if it should be.
type Secrets struct {
	Isolation string              `json:"isolation"`
	Hidden    []hypervisor.Secret `json:"hidden"`
	Notes     []string            `json:"notes"`
	// Visible are files that look like secrets and that commands can read. Nothing of their contents is said.
	Visible []Likely `json:"visible"`
	// Searched says how many names were looked at, and Complete that these were all.
	Searched int  `json:"searched"`
	Complete bool `json:"complete"`
}

// Likely is a file that looks like a secret, and why.
type Likely struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// mostSearched and mostLikely bound the search for what looks like a secret.
const (
	mostSearched = 200_000
	mostLikely   = 500
)

// Search looks in directories, and in those below them, for what looks like a secret and is not hidden. It goes by names; of files that may be a key or a
// certificate it reads the beginning. Symbolic links are not followed.
func (s *Secrets) Search(ctx context.Context, dirs ...string) {
	queue := slices.Clone(dirs)
	seen := map[string]bool{}
	for s.Complete = true; len(queue) > 0; {
		dir := queue[0]
		queue = queue[1:]
		if seen[dir] || s.hides(dir) {
			continue
		}
		seen[dir] = true
		queue = append(queue, s.directory(dir)...)
		if ctx.Err() != nil || s.Searched >= mostSearched || len(s.Visible) >= mostLikely {
			s.Complete = len(queue) == 0
			break
		}
	}
	slices.SortFunc(s.Visible, func(a, b Likely) int { return strings.Compare(a.Path, b.Path) })
}

func (s *Secrets) hides(path string) bool {
	return slices.ContainsFunc(s.Hidden, func(h hypervisor.Secret) bool { return lexical.Within(path, h.Path) })
}

// directory notes what looks like a secret in a directory and returns the directories in it.
func (s *Secrets) directory(dir string) (below []string) {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	for s.Searched < mostSearched {
		list, err := f.ReadDir(256)
		for _, e := range list {
			s.Searched++
			path := filepath.Join(dir, e.Name())
			switch {
			case e.IsDir() && !slices.Contains(others, e.Name()):
				below = append(below, path)
			case e.Type().IsRegular():
				if why := looks(path); why != "" && !s.hides(path) {
					s.Visible = append(s.Visible, Likely{path, why})
				}
			}
		}
		if err != nil {
			break
		}
	}
	return below
}

// others are directories of programs that other people wrote: what looks like a secret there is a part of a test.
var others = []string{"node_modules", "site-packages", "dist-packages", ".git", ".rustup", "registry", "vendor", "__pycache__"}

// likely are patterns of names in small letters, and what such a file is. The first that fits counts; an empty text says that it is none.
var likely = []struct{ patterns, what string }{
	{"*.pub .env.example .env.sample .env.template .env.dist .env.test *.env.example", ""},
	{"id_rsa id_dsa id_ecdsa id_ed25519 id_ecdsa_sk id_ed25519_sk", "an ssh key"},
	{".env .env.* *.env .envrc", "variables of a project, often with tokens"},
	{"*.ppk", "a PuTTY key"},
	{"*.kdbx *.kdb", "a database of passwords"},
	{"*.p12 *.pfx *.jks *.keystore", "a store of keys"},
	{"*.ovpn", "a tunnel's key"},
	{"*.tfstate *.tfstate.backup terraform.tfvars *.auto.tfvars", "Terraform's state or variables"},
	{".netrc _netrc .pgpass .htpasswd .npmrc .yarnrc.yml .pypirc .git-credentials .my.cnf .dockercfg .vault-token .vault_pass .vault_pass.txt .s3cfg .boto", "a program's password or token"},
	{"credentials credentials.json credentials.toml credentials.yml credentials.yaml .credentials .credentials.json oauth_creds.json auth.json token.json tokens.json token.txt .token", "a program's token"},
	{"client_secret*.json service-account*.json service_account*.json *-service-account.json", "a key for a cloud"},
	{"secrets.yml secrets.yaml secrets.json secrets.toml secret.yml secret.yaml secret.json passwords.txt password.txt", "secrets, by its name"},
	{"kubeconfig *.kubeconfig kubeconfig.yaml kubeconfig.yml", "a cluster's keys"},
	{"wallet.dat *.wallet keystore.json", "a wallet"},
	{"master.key *.age *.agekey age-key.txt keys.txt", "a key"},
	{".*_history", "what was typed"},
	{".claude.json", "Claude Code's state, which may have keys of servers"},
	{"*.pem *.key", inside},
}

// inside says that the beginning of the file tells.
const inside = "a private key"

// looks says what a file seems to be, or nothing.
func looks(path string) string {
	name := strings.ToLower(filepath.Base(path))
	for _, l := range likely {
		for pattern := range strings.FieldsSeq(l.patterns) {
			if fits, err := filepath.Match(pattern, name); err != nil || !fits {
				continue
			}
			if l.what == inside && !hasKey(path) {
				return ""
			}
			return l.what
		}
	}
	return ""
}

// hasKey tells whether the beginning of a file has a private key in it.
func hasKey(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	begin, _ := io.ReadAll(io.LimitReader(f, 16<<10))
	return bytes.Contains(begin, []byte("PRIVATE KEY-----"))
}

// Text says it for people.
func (s *Secrets) Text() string {
	var b strings.Builder
	line := func(parts ...string) { b.WriteString(strings.Join(parts, "") + "\n") }
	switch s.Isolation {
	case "none":
		line("With --isolation none nothing is hidden.")
	case "vm":
		line("A virtual machine has nothing of this machine but the working folder. Hidden in it:")
	default:
		line("Hidden from commands (--isolation ", s.Isolation, "):")
	}
	for _, h := range s.Hidden {
		line("  ", console.Shown(h.Path), "  ", h.What, " (", h.Source, ")")
	}
	if len(s.Hidden) == 0 && s.Isolation != "none" {
		line("  nothing that is known is there")
	}
	for _, n := range s.Notes {
		line("  note: ", console.Shown(n))
	}
	if len(s.Visible) == 0 {
		line("Nothing else looks like a secret by its name.")
	} else {
		line("Looks like a secret, and can be read inside (--hide PATH or jail.hide hides it):")
	}
	for _, v := range s.Visible {
		line("  ", console.Shown(v.Path), "  ", v.Why)
	}
	if !s.Complete {
		line("The search ended early: there may be more.")
	}
	return b.String()
}
