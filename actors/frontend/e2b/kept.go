package e2b

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"

	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
)

const (
	keptName = "variables.json"
	// maxKeptVariables is how long that file may be, in bytes.
	maxKeptVariables = 1 << 20
)

// kept are the variables that clients have given all commands, for the next process that serves the same folder. They belong to who has the token, of which nothing but a hash is written down: somebody else who gets the folder, and gives the
// sandbox a token of his own, gets none of them.
type kept struct {
	Token     string            `json:"token"`
	Variables map[string]string `json:"variables"`
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte("variables:" + token))
	return hex.EncodeToString(sum[:])
}

// recall returns what is kept for who has this token.
func (s *Server) recall(token string) map[string]string {
	if s.o.Kept == "" {
		return nil
	}
	var k kept
	err := readJSON(s.o.Kept, keptName, maxKeptVariables, &k)
	switch {
	case missing(err):
	case err != nil:
		s.o.Logger.Warn("variables that were kept cannot be read", "component", "e2b", "err", err)
	case same(k.Token, hashOf(token)):
		return k.Variables
	}
	return nil
}

// keep keeps variables for who has this token.
func (s *Server) keep(token string, variables map[string]string) error {
	if s.o.Kept == "" {
		return nil
	}
	size := 0
	for name, value := range variables {
		size += 6*(len(name)+len(value)) + 8 // as JSON has them at worst
	}
	if size > maxKeptVariables-1<<10 {
		return wire.Fail(http.StatusRequestEntityTooLarge, "envVars: all variables together are too long to be kept")
	}
	return writeJSON(s.o.Kept, keptName, kept{hashOf(token), variables})
}

// setVariables adds variables for all commands, and keeps them, for who has this token. The caller holds p.mu.
func (s *Server) setVariables(p *place, token string, add map[string]string) error {
	all := maps.Clone(p.added)
	if token != p.token {
		maps.Copy(all, s.recall(token))
	}
	maps.Copy(all, add)
	if len(add) > 0 {
		if err := s.keep(token, all); err != nil {
			return err
		}
	}
	p.added = all
	return nil
}
