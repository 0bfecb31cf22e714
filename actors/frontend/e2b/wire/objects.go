package wire

import (
	"net/http"
	"time"
)

const (
	// EnvdVersion is the version of envd that clients are told: it opens all that they know.
	EnvdVersion = "0.6.4"
	// ClientID stands where nobody looks any more.
	ClientID = "sandbox"
	// BaseTemplate is the template of who names none.
	BaseTemplate = "base"
)

// The states of a sandbox, and what becomes of it at the end of its time.
const (
	StateRunning   = "running"
	StatePaused    = "paused"
	OnTimeoutKill  = "kill"
	OnTimeoutPause = "pause"
)

const (
	// DefaultTimeout is how long a sandbox lives unless its client says so.
	DefaultTimeout = 300 * time.Second
	// MaxTimeout is how long one may live.
	MaxTimeout = 30 * 24 * time.Hour
)

// Timeout reads how long a sandbox shall live, in seconds; nil: nothing was said. The error is a [Problem].
func Timeout(seconds *int64) (time.Duration, error) {
	if seconds == nil {
		return DefaultTimeout, nil
	}
	if *seconds < 0 || *seconds > int64(MaxTimeout/time.Second) {
		return 0, Fail(http.StatusBadRequest, "timeout: it has to be 0 to %d seconds", int64(MaxTimeout/time.Second))
	}
	return time.Duration(*seconds) * time.Second, nil
}

// NewSandbox asks for a sandbox.
type NewSandbox struct {
	TemplateID   string                  `json:"templateID"`
	Timeout      *int64                  `json:"timeout"` // in seconds
	AutoPause    bool                    `json:"autoPause"`
	AutoResume   *struct{ Enabled bool } `json:"autoResume"`
	Metadata     map[string]string       `json:"metadata"`
	EnvVars      map[string]string       `json:"envVars"`
	Internet     *bool                   `json:"allow_internet_access"`
	Network      *Network                `json:"network"`
	VolumeMounts []any                   `json:"volumeMounts"`
	MCP          any                     `json:"mcp"`
	IAM          any                     `json:"iam"`
}

// Network is what a sandbox's network shall be.
type Network struct {
	AllowPublicTraffic *bool          `json:"allowPublicTraffic"`
	AllowOut           []string       `json:"allowOut"`
	DenyOut            []string       `json:"denyOut"`
	Rules              map[string]any `json:"rules"`
	EgressProxy        any            `json:"egressProxy"`
	MaskRequestHost    string         `json:"maskRequestHost"`
}

// Offline tells whether the sandbox is to have no network.
func (n *NewSandbox) Offline() bool { return n.Internet != nil && !*n.Internet }

// Private tells whether the ports of programs inside are to need a token.
func (n *NewSandbox) Private() bool {
	return n.Network != nil && n.Network.AllowPublicTraffic != nil && !*n.Network.AllowPublicTraffic
}

// Unsupported is about what no server here has; else nil. network says what decides about the network instead of the client.
func (n *NewSandbox) Unsupported(network string) error {
	switch {
	case len(n.VolumeMounts) > 0:
		return Fail(http.StatusNotImplemented, "volumeMounts: a sandbox has the volumes of its template, and no others")
	case n.MCP != nil:
		return Fail(http.StatusNotImplemented, "mcp: there is no gateway of MCP servers")
	case n.IAM != nil:
		return Fail(http.StatusNotImplemented, "iam: there are no tokens of workloads")
	case n.Network != nil && (len(n.Network.AllowOut) > 0 || len(n.Network.DenyOut) > 0 || len(n.Network.Rules) > 0 || n.Network.EgressProxy != nil || n.Network.MaskRequestHost != ""):
		return Fail(http.StatusNotImplemented, "network: %s", network)
	}
	return nil
}

// Sandbox is what a client is told of a sandbox that it has made or connected to.
type Sandbox struct {
	SandboxID          string  `json:"sandboxID"`
	TemplateID         string  `json:"templateID"`
	ClientID           string  `json:"clientID"`
	EnvdVersion        string  `json:"envdVersion"`
	EnvdAccessToken    string  `json:"envdAccessToken"`
	TrafficAccessToken *string `json:"trafficAccessToken"`
	Domain             *string `json:"domain"`
}

// Detail is what a client is told of a sandbox that it asks about, or lists.
type Detail struct {
	SandboxID       string            `json:"sandboxID"`
	TemplateID      string            `json:"templateID"`
	ClientID        string            `json:"clientID"`
	EnvdVersion     string            `json:"envdVersion"`
	EnvdAccessToken string            `json:"envdAccessToken,omitempty"`
	Domain          *string           `json:"domain,omitempty"`
	StartedAt       time.Time         `json:"startedAt"`
	EndAt           time.Time         `json:"endAt"`
	State           string            `json:"state"`
	CPUCount        int               `json:"cpuCount"`
	MemoryMB        int64             `json:"memoryMB"`
	DiskSizeMB      int64             `json:"diskSizeMB"`
	Metadata        map[string]string `json:"metadata"`
	Lifecycle       *Lifecycle        `json:"lifecycle,omitempty"`
	Internet        *bool             `json:"allowInternetAccess,omitempty"`
}

// Lifecycle says what becomes of a sandbox.
type Lifecycle struct {
	OnTimeout  string `json:"onTimeout"`
	AutoResume bool   `json:"autoResume"`
}
