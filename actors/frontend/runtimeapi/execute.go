package runtimeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

const (
	// maxCommand is how long the body of a command is, in bytes.
	maxCommand = 1 << 20
	// halfOutput is how much is kept of the beginning and of the end of a stream, in bytes. The answer stays below 16 MiB, which is what Go's client reads, even if each byte needs six in JSON.
	halfOutput = 512 << 10
)

// result is what a command came to.
type result struct {
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode int    `json:"exit_code"`
}

// failed is the result of a command that could not be run, or not to its own end.
func failed(err error) result {
	return result{Stderr: "Failed to execute command: " + frontend.Told(err.Error()), ExitCode: 1}
}

// execute runs a command to its end.
func (s *Server) execute(w http.ResponseWriter, r *http.Request, _ string) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return fail(http.StatusUnsupportedMediaType, "the Content-Type has to be application/json")
	}
	body, err := io.ReadAll(s.body(w, r, maxCommand))
	if err != nil {
		return uncut(err)
	}
	var m struct {
		Command *string `json:"command"`
	}
	if err := frontend.CheckJSON(body); err != nil {
		return fail(http.StatusUnprocessableEntity, "the body is no JSON that can be read: %s", err)
	}
	if err := json.Unmarshal(body, &m); err != nil || m.Command == nil {
		return fail(http.StatusUnprocessableEntity, `the body has to be {"command": "..."}`)
	}
	env, err := s.o.Environ()
	if err != nil {
		return err
	}
	ctx, id, end, err := s.clients.Begin(r, s.o.Live)
	if err != nil {
		return err
	}
	defer end()
	argv, err := split(*m.Command)
	if err == nil && strings.IndexByte(*m.Command, 0) >= 0 {
		err = errors.New("no argument may have a zero byte")
	}
	if err != nil {
		answer(w, http.StatusOK, failed(err))
		return nil
	}
	res, err := s.run(ctx, api.CommandRequest{
		Argv: argv, Env: env, Timeout: s.o.Timeout, Share: true, Wait: true, Awaited: true, Origin: origin(id, "execute"),
	})
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, res)
	return nil
}

// origin is who asks, for events, logs and the audit.
func origin(id, tool string) api.Origin {
	return api.Origin{Frontend: frontendName, RequestID: id, Tool: tool}
}

// run runs a command to its end. The error is of one that has not begun: whoever gets it may send it again.
func (s *Server) run(ctx context.Context, r api.CommandRequest) (result, error) {
	st, err := s.o.Live.StartCommand(ctx, r)
	var start *hypervisor.StartError
	if errors.As(err, &start) || errors.Is(err, api.ErrCommand) || errors.Is(err, messages.ErrDenied) {
		return failed(err), nil
	}
	if err != nil {
		return result{}, err
	}
	var stdout, stderr frontend.Ends
	var ended *api.CommandEnd
	err = s.o.Live.FollowCommand(ctx, api.FollowRequest{Number: st.Number, Paced: true}, func(e api.CommandEvent) error {
		switch {
		case e.Ended != nil:
			ended = e.Ended
		case e.Stream == api.StreamStderr:
			stderr.Add(e.Data, halfOutput, halfOutput)
		default:
			stdout.Add(e.Data, halfOutput, halfOutput)
		}
		return nil
	})
	if ended == nil { // the client has gone, or the session
		s.stop(ctx, st.Number)
		return failed(fmt.Errorf("its end was not seen: %w", err)), nil
	}
	res := result{ExitCode: ended.ExitCode}
	res.Stdout, _, _ = stdout.Text(halfOutput)
	res.Stderr, _, _ = stderr.Text(halfOutput)
	if ended.Signal != 0 {
		res.ExitCode = -ended.Signal
	}
	if why := unfinished(*ended, r); why != nil {
		f := failed(why)
		if res.Stderr != "" && !strings.HasSuffix(res.Stderr, "\n") {
			res.Stderr += "\n"
		}
		res.Stderr, res.ExitCode = res.Stderr+f.Stderr, f.ExitCode
	}
	return res, nil
}

// stop ends a command of which nobody can ask for the output any more.
func (s *Server) stop(ctx context.Context, number int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if _, err := s.o.Live.StopCommand(ctx, api.CommandNumber{Number: number}); err != nil {
		s.o.Logger.Debug("the end of a command whose client has gone", "component", frontendName, "err", err)
	}
}

// unfinished is why a command has not ended by itself; nil if it has.
func unfinished(e api.CommandEnd, r api.CommandRequest) error {
	switch {
	case e.Outcome == messages.OutcomeDenied:
		return fmt.Errorf("it was denied, and what it did was put back: %s", e.Reason)
	case e.Outcome == messages.OutcomeFailed:
		return fmt.Errorf("its step failed: %s", e.Reason)
	case e.Outcome == messages.OutcomeCancelled && e.Duration >= r.Timeout:
		return fmt.Errorf("it ran longer than %v and was ended; what it did is kept", r.Timeout)
	case e.Outcome == messages.OutcomeCancelled:
		return fmt.Errorf("it was ended: %s", e.Reason)
	case e.ExitCode < 0:
		return errors.New("the sandbox has ended before it")
	}
	return nil
}
