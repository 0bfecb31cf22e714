package console

import (
	"strings"
	"time"
)

// PromptQuestion is one for the user.
type PromptQuestion struct {
	Text string
	// Lasting questions can be answered for once, for the folder or for always; others
	// with yes and no only.
	Lasting  bool
	Deadline time.Time // for the answer
}

// PromptAnswer is the user's.
type PromptAnswer struct {
	Allow bool
	// Scope is for how long, as [api.DecideRequest] has it; empty: as usual.
	Scope string
}

func (q PromptQuestion) choices() string {
	if !q.Lasting {
		return ""
	}
	return "o: this once, y: in this session, p: in this folder, a: always "
}

// answer understands a line that was typed. What is not a yes is a no.
func (q PromptQuestion) answer(line string) PromptAnswer {
	word := strings.ToLower(strings.TrimSpace(line))
	if word == "y" || word == "yes" {
		return PromptAnswer{Allow: true}
	}
	if q.Lasting {
		switch word {
		case "o", "once":
			return PromptAnswer{true, "once"}
		case "p", "project", "folder":
			return PromptAnswer{true, "project"}
		case "a", "always":
			return PromptAnswer{true, "user"}
		}
	}
	return PromptAnswer{}
}
