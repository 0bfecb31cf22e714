package mcp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
)

type statusInput struct {
	where
}

// StatusResult is what get_session_status returns.
type StatusResult struct {
	Session     string            `json:"session"`
	State       string            `json:"state" jsonschema:"starting, active, stopping or failed"`
	Isolation   string            `json:"isolation" jsonschema:"what commands run in: jail, vm, none"`
	StartedAt   time.Time         `json:"started_at"`
	OpenStep    int64             `json:"open_step,omitempty" jsonschema:"the step of the commands that run now"`
	Running     []string          `json:"running,omitempty" jsonschema:"the commands that run in it"`
	Directories []FolderStatus    `json:"directories"`
	Pending     []Approval        `json:"pending_approvals" jsonschema:"decisions that a person has to make"`
	Results     []HandleStatus    `json:"results" jsonschema:"calls whose result can be fetched with get_result"`
	Machine     map[string]string `json:"machine,omitempty"`
}

// FolderStatus describes a working folder.
type FolderStatus struct {
	Index   int    `json:"index"`
	Path    string `json:"path"`
	Label   string `json:"label,omitempty"`
	Access  string `json:"access" jsonschema:"read_write or read_only"`
	State   string `json:"state" jsonschema:"ok, read_only, recovering or version_mismatch"`
	Problem string `json:"problem,omitempty"`
	Steps   int    `json:"steps" jsonschema:"how many steps can be undone"`
}

// HandleStatus is a result that can be fetched.
type HandleStatus struct {
	Handle string `json:"handle"`
	Tool   string `json:"tool"`
	Done   bool   `json:"done"`
}

func (s *Server) sessionStatus(ctx context.Context, live api.Live, in statusInput) (*StatusResult, string, error) {
	st, err := live.Status(ctx)
	if err != nil {
		return nil, "", err
	}
	pending, err := live.Pending(ctx)
	if err != nil {
		return nil, "", err
	}
	only := ""
	if in.Directory != "" {
		if only, err = in.path(ctx, live); err != nil {
			return nil, "", err
		}
	}
	res := &StatusResult{
		Session: st.Session, State: st.State, Isolation: st.Isolation, StartedAt: st.StartedAt,
		Directories: []FolderStatus{}, Pending: []Approval{}, Results: []HandleStatus{}, Machine: st.Machine,
	}
	if st.OpenStep != nil {
		res.OpenStep = int64(*st.OpenStep)
	}
	for _, c := range st.Running {
		res.Running = append(res.Running, frontend.Valid(c.Command))
	}
	for _, d := range st.Directories {
		if only == "" || d.Path == only {
			res.Directories = append(res.Directories, FolderStatus{
				Index: d.Index, Path: frontend.Valid(d.Path), Label: d.Label, Access: d.Access, State: d.State, Problem: d.Problem, Steps: d.Log.Steps,
			})
		}
	}
	jobs := s.kept()
	for _, j := range jobs {
		h := HandleStatus{Handle: j.handle, Tool: j.tool}
		select {
		case <-j.done:
			h.Done = true
		default:
		}
		res.Results = append(res.Results, h)
	}
	for _, p := range pending {
		if only == "" || p.Directory == only {
			res.Pending = append(res.Pending, *approval(p, handleOf(jobs, p.ID)))
		}
	}
	return res, res.text(), nil
}

// handleOf returns the handle of the job that the safeguard holds.
func handleOf(jobs []*job, id string) string {
	for _, j := range jobs {
		if p, _ := j.held(); p != nil && p.ID == id {
			return j.handle
		}
	}
	return ""
}

func (r *StatusResult) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "session %s: %s, isolation %s\n", r.Session, r.State, r.Isolation)
	for _, d := range r.Directories {
		label := ""
		if d.Label != "" {
			label = " (" + d.Label + ")"
		}
		fmt.Fprintf(&b, "directory %d%s: %s, %s, %s, %s\n", d.Index, label, d.Path, d.Access, d.State, count(d.Steps, "undoable step"))
	}
	if r.OpenStep != 0 {
		fmt.Fprintf(&b, "running: step %d\n", r.OpenStep)
		if len(r.Running) > 1 {
			for _, c := range r.Running {
				b.WriteString("  " + oneLine(c) + "\n")
			}
		}
	}
	for _, p := range r.Pending {
		b.WriteString(p.text() + "\n")
	}
	for _, h := range r.Results {
		state := "running"
		if h.Done {
			state = "done"
		}
		fmt.Fprintf(&b, "result %s (%s): %s\n", h.Handle, h.Tool, state)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
