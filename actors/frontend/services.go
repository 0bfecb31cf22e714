package frontend

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/codeagent/sandbox/actors/api"
)

// Service is a service as clients see it, in valid UTF-8.
type Service struct {
	Name        string     `json:"name"`
	Command     string     `json:"command" jsonschema:"its arguments, quoted for a shell"`
	Dir         string     `json:"dir,omitempty" jsonschema:"the directory that it was started in"`
	State       string     `json:"state" jsonschema:"running or ended"`
	StartedAt   time.Time  `json:"started_at"`
	EndedAt     *time.Time `json:"ended_at,omitempty"`
	ExitCode    *int       `json:"exit_code,omitempty" jsonschema:"128+n if signal n ended it; left out while it runs, or if its end is not known"`
	OutputBytes int64      `json:"output_bytes" jsonschema:"that it has written to stdout and stderr"`
	Publish     []string   `json:"publish,omitempty" jsonschema:"its ports that the host can connect to, while it runs"`
}

// ServiceOf is what clients see of a service.
func ServiceOf(st api.ServiceStatus) Service {
	return Service{
		Name: st.Name, Command: Valid(st.Command), Dir: Valid(st.Dir), State: st.State, StartedAt: st.StartedAt, EndedAt: st.EndedAt,
		ExitCode: st.ExitCode, OutputBytes: st.OutputBytes, Publish: st.Publish,
	}
}

// ServicesOf is [ServiceOf] for several; never nil.
func ServicesOf(list []api.ServiceStatus) []Service {
	out := make([]Service, len(list))
	for i, st := range list {
		out[i] = ServiceOf(st)
	}
	return out
}

// Valid returns s with what is not UTF-8 replaced.
func Valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Rest returns b without the end of a character at its beginning whose first bytes
// were cut off. Bytes that belong to no character stay.
func Rest(b []byte) []byte {
	for i := range min(len(b), utf8.UTFMax) {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}
