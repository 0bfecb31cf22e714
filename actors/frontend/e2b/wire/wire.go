package wire

import (
	"crypto/rand"
	"strconv"
	"strings"
)

const (
	// EnvdPort is the port at which commands and files of a sandbox are asked for.
	EnvdPort = 49983
	// EnvdVersion is the version of envd that clients are told: it opens all that they know.
	EnvdVersion = "0.6.4"
	// ClientID stands where nobody looks any more.
	ClientID = "sandbox"
)

// An id has [IDLength] letters and digits: about 103 random bits. It can be a part of a host name, and of a file's.
const (
	IDLength = 20
	idDigits = "abcdefghijklmnopqrstuvwxyz0123456789"
)

// NewID makes an id.
func NewID() string {
	var id strings.Builder
	for id.Len() < IDLength {
		var b [32]byte
		_, _ = rand.Read(b[:]) // never fails: see its documentation
		for _, c := range b {
			if int(c) < 256/len(idDigits)*len(idDigits) && id.Len() < IDLength { // all digits are as likely
				id.WriteByte(idDigits[int(c)%len(idDigits)])
			}
		}
	}
	return id.String()
}

// IsID tells whether s is what an id looks like.
func IsID(s string) bool { return len(s) == IDLength && strings.Trim(s, idDigits) == "" }

// PortNumber reads a port: 1 to 65535, in decimal digits without a sign or a zero before them.
func PortNumber(s string) (uint16, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err == nil && n > 0 && s[0] != '0' && s[0] != '+'
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
