package terminal

import (
	"strings"
	"time"
)

// Question is one for the user.
type Question struct {
	Text string
	// Lasting questions can be answered for once, for the folder or for always; others
	// with yes and no only.
	Lasting  bool
	Deadline time.Time // for the answer
}

// Answer is the user's.
type Answer struct {
	Allow bool
	// Scope is for how long, as [api.DecideRequest] has it; empty: as usual.
	Scope string
}

func (q Question) choices() string {
	if !q.Lasting {
		return ""
	}
	return "o: this once, y: in this session, p: in this folder, a: always "
}

// answer understands a line that was typed. What is not a yes is a no.
func (q Question) answer(line string) Answer {
	word := strings.ToLower(strings.TrimSpace(line))
	if word == "y" || word == "yes" {
		return Answer{Allow: true}
	}
	if q.Lasting {
		switch word {
		case "o", "once":
			return Answer{true, "once"}
		case "p", "project", "folder":
			return Answer{true, "project"}
		case "a", "always":
			return Answer{true, "user"}
		}
	}
	return Answer{}
}
