package mcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/messages"
)

// Approval says what a person has to decide before a job goes on.
type Approval struct {
	ID        string    `json:"safeguard_id" jsonschema:"id of the decision that is awaited"`
	Kind      string    `json:"kind" jsonschema:"delete_threshold, overwrite_large, rename_over, command (it has not begun) or network"`
	Message   string    `json:"message" jsonschema:"what is about to be done"`
	Paths     []string  `json:"sample_paths" jsonschema:"some of the paths concerned"`
	Count     int       `json:"count" jsonschema:"how many paths are concerned"`
	Deadline  time.Time `json:"deadline" jsonschema:"without a decision until then it is denied and the step rolled back"`
	Approve   string    `json:"approve_with" jsonschema:"what a person runs on the host to allow it"`
	Deny      string    `json:"deny_with" jsonschema:"what a person runs on the host to refuse it"`
	Handle    string    `json:"handle" jsonschema:"give it to get_result to learn how it went on"`
	StepID    int64     `json:"step_id" jsonschema:"the step that is held"`
	Directory string    `json:"directory" jsonschema:"the working folder concerned"`
}

func approval(p api.Pending, handle string) *Approval {
	return &Approval{
		ID: p.ID, Kind: p.Kind, Message: p.Message, Paths: some(p.SamplePaths, 20), Count: p.Count, Deadline: p.Deadline,
		Approve: "sandbox approve " + p.ID, Deny: "sandbox deny " + p.ID,
		Handle: handle, StepID: int64(p.Step), Directory: p.Directory,
	}
}

func (a *Approval) text() string {
	otherwise := "refused and rolled back"
	if messages.Lasting(a.Kind) {
		otherwise = "refused"
	}
	return fmt.Sprintf("PENDING APPROVAL %s: %s\nIt is held until a person decides, and is "+otherwise+" at %s otherwise. You cannot decide it: ask the user to run %q (or %q), then call get_result with handle %q.",
		a.ID, a.Message, a.Deadline.Format(time.RFC3339), a.Approve, a.Deny, a.Handle)
}

// verdict is how waiting for a job ended: its end (all nil), something for a
// person to decide, or a question for the client to put to one.
type verdict struct {
	pending  *Approval
	question *sdk.CallToolResult
}

// await waits for the job's end, or until a decision is needed that nobody can
// be asked for. With own set the call's end is the job's: it is cancelled.
func (s *Server) await(ctx context.Context, req *sdk.CallToolRequest, live api.Live, j *job, own bool) (verdict, error) {
	for {
		p, changed := j.held()
		if p == nil || len(live.Deciders()) > 0 {
			// Nothing to decide, or somebody sees the question already.
			select {
			case <-j.done:
				return verdict{}, nil
			case <-changed:
			case <-ctx.Done():
				if own {
					j.cancel()
					<-j.done // the step is closed before the call ends
				}
				return verdict{}, ctx.Err()
			}
			continue
		}
		select {
		case <-j.done:
			return verdict{}, nil // what held it is decided: its event is late
		default:
		}
		if mode := elicits(req.Session); mode != elicitNever && j.ask(p.ID) {
			if mode == elicitByResult {
				return s.question(j, *p)
			}
			err := s.elicit(ctx, req.Session, live, j, *p)
			if err == nil {
				j.decided(p.ID)
			}
			if err == nil || ctx.Err() != nil {
				continue
			}
			s.log.Info("the MCP client did not ask its user", "safeguard", p.ID, "err", err)
		}
		if err := s.keep(j); err != nil {
			j.cancel()
			<-j.done
			return verdict{}, err
		}
		return verdict{pending: approval(*p, j.handle)}, nil
	}
}

// resumed puts the answer that a client brings back to the question it was
// asked, and returns the job to go on with. It returns nil for a call that is
// not such a repetition.
func (s *Server) resumed(ctx context.Context, req *sdk.CallToolRequest, live api.Live) (*job, error) {
	if req.Params.RequestState == "" {
		return nil, nil
	}
	j, err := s.job(req.Params.RequestState)
	if err != nil {
		return nil, err
	}
	answer, _ := req.Params.InputResponses[questionKey].(*sdk.ElicitResult)
	if p, _ := j.held(); p != nil && answer != nil {
		if err = s.decide(ctx, live, p.ID, answer); err == nil {
			j.decided(p.ID)
		}
	}
	return j, err
}

// Ways to ask the client's user.
const (
	elicitNever    = iota
	elicitByCall   // the server asks while the call is under way
	elicitByResult // the call's result is the question; since 2026-07-28
)

// byResult is the first revision in which a server may not ask by itself.
const byResult = "2026-07-28"

func elicits(ss *sdk.ServerSession) int {
	p := ss.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.Elicitation == nil {
		return elicitNever
	}
	if e := p.Capabilities.Elicitation; e.Form == nil && e.URL != nil {
		return elicitNever
	}
	if p.ProtocolVersion >= byResult {
		return elicitByResult
	}
	return elicitByCall
}

const questionKey = "approval"

func questionParams(p api.Pending) *sdk.ElicitParams {
	text := p.Message
	for _, path := range some(p.SamplePaths, 5) {
		text += "\n  " + path
	}
	deny := "stop the command and undo what it did"
	if p.Kind == messages.KindNetwork {
		deny = "refuse this connection; the command goes on"
	}
	if p.Kind == messages.KindProtected {
		deny = "refuse to change this file; the command goes on"
	}
	if p.Kind == messages.KindGate {
		deny = "refuse this read; the command goes on"
	}
	if p.Kind == messages.KindUse {
		deny = "refuse this use of the key; the command goes on"
	}
	return &sdk.ElicitParams{
		Mode: "form", Message: text,
		RequestedSchema: map[string]any{
			"type": "object",
			"properties": map[string]any{"decision": map[string]any{
				"type": "string", "title": "Decision", "enum": []string{"allow", "deny"},
				"description": "allow: go on. deny: " + deny + ".",
			}},
			"required": []string{"decision"},
		},
	}
}

// question makes the result that is a question; the client repeats the call
// with the answer.
func (s *Server) question(j *job, p api.Pending) (verdict, error) {
	if err := s.keep(j); err != nil {
		j.cancel()
		<-j.done
		return verdict{}, err
	}
	return verdict{question: &sdk.CallToolResult{
		InputRequests: sdk.InputRequestMap{questionKey: questionParams(p)},
		RequestState:  j.handle,
	}}, nil
}

// elicit asks the client's user and decides by the answer. It returns nil, too,
// when the decision came from elsewhere meanwhile.
func (s *Server) elicit(ctx context.Context, ss *sdk.ServerSession, live api.Live, j *job, p api.Pending) error {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	type reply struct {
		answer *sdk.ElicitResult
		err    error
	}
	replies := make(chan reply, 1)
	go func() {
		answer, err := ss.Elicit(asking, questionParams(p))
		replies <- reply{answer, err}
	}()
	for {
		now, changed := j.held()
		if now == nil || now.ID != p.ID {
			return nil
		}
		select {
		case r := <-replies:
			if r.err != nil {
				return r.err
			}
			return s.decide(ctx, live, p.ID, r.answer)
		case <-changed:
		case <-j.done:
			return nil
		}
	}
}

// decide decides by a person's answer. Anything but a clear yes is a no.
func (s *Server) decide(ctx context.Context, live api.Live, id string, answer *sdk.ElicitResult) error {
	allow := answer.Action == "accept" && answer.Content["decision"] == "allow"
	err := live.Decide(context.WithoutCancel(ctx), api.DecideRequest{ID: id, Allow: allow, By: "mcp-elicitation"})
	if err != nil && (errors.Is(err, errDecided) || errors.Is(err, errNoSafeguard)) {
		return nil // somebody else was faster
	}
	return err
}

// some returns the first n, never nil.
func some(list []string, n int) []string {
	out := make([]string, 0, min(n, len(list)))
	for _, s := range list[:min(n, len(list))] {
		out = append(out, frontend.Valid(s))
	}
	return out
}
