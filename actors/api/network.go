package api

import (
	"context"
	"time"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// Networked tells of the network of a session's commands. Its method is safe for concurrent use.
type Networked interface {
	// Network returns what is connected now, what was refused, and what decided. It is for people: it looks for the
	// programs of flows that it has not seen before, which is slow. Its lists are bounded, newest first.
	Network(ctx context.Context) (NetworkStatus, error)
}

func networkOperations() []Operation {
	return []Operation{{Control: "network", Traits: Reads, Call: gets(Networked.Network)}}
}

func (c Remote) Network(ctx context.Context) (NetworkStatus, error) {
	return ask[NetworkStatus](ctx, c, "network", None{})
}

// NetworkStatus is the network of a session's commands at a moment.
type NetworkStatus struct {
	At time.Time `json:"at"`
	// Mode is the policy's: "disabled", "allowlist", "ask", "open", "pod" or "pod-ask"; or "host": nothing is between the commands and
	// the host's network.
	Mode string `json:"mode"`
	// Allow and Deny are the rules that the session was started with.
	Allow []string `json:"allow"`
	Deny  []string `json:"deny"`

	// Flows are the newest of the live ones; Live is how many there are.
	Flows []NetworkFlow `json:"flows"`
	Live  int           `json:"live"`
	// Refused are the newest different ones; Denied is how often something was.
	Refused []NetworkRefusal `json:"refused"`
	Denied  uint64           `json:"denied"`
	Allowed uint64           `json:"allowed"` // flows, in all
	Lookups uint64           `json:"lookups"` // of names, in all

	// Waiting are the questions that wait for an answer, Answers what became of the newest others.
	Waiting []Pending `json:"waiting"`
	Answers []Decided `json:"answers"`
}

// NetworkFlow is a connection, or what takes the place of one in UDP and ICMP.
type NetworkFlow struct {
	ID       uint64 `json:"id"` // unique in the session
	Protocol string `json:"protocol"`
	// Host is the name by which the address was found; empty if none is known.
	Host    string `json:"host,omitempty"`
	Address string `json:"address"`
	Port    uint16 `json:"port,omitempty"`
	// Process asked for it, as far as that could be found out.
	Process *Process `json:"process,omitempty"`
	// Rule is what allowed it.
	Rule     string    `json:"rule"`
	Since    time.Time `json:"since"`
	Sent     uint64    `json:"sent"` // bytes of payload from the command
	Received uint64    `json:"received"`
}

// NetworkRefusal is what was refused, once or more often.
type NetworkRefusal struct {
	Protocol string         `json:"protocol"` // "dns": the name was not looked up
	Host     string         `json:"host,omitempty"`
	Address  string         `json:"address,omitempty"`
	Port     uint16         `json:"port,omitempty"`
	Step     undolog.StepID `json:"step_id,omitempty"` // that was open the last time
	// Rule is the rule that refused it, or in a few words why.
	Rule string `json:"rule"`
	// AllowHost is the value of --allow-host that would allow it; empty if none would.
	AllowHost string    `json:"allow_host,omitempty"`
	Times     uint64    `json:"times"`
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
}
