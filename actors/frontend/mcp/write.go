package mcp

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
)

type writeInput struct {
	where
	Path     string `json:"path" jsonschema:"file to write, relative to the working folder"`
	Content  string `json:"content" jsonschema:"the whole new content"`
	Encoding string `json:"encoding,omitempty" jsonschema:"text (default), or base64 for binary content"`
	Create   bool   `json:"create_only,omitempty" jsonschema:"fail if the file is there already"`
}

func (in writeInput) about() (directory, path string) { return in.Directory, in.Path }

type editInput struct {
	where
	Path   string     `json:"path" jsonschema:"file to edit, relative to the working folder"`
	Edits  []editItem `json:"edits" jsonschema:"replacements, applied in order; all or none"`
	DryRun bool       `json:"dry_run,omitempty" jsonschema:"only return the diff, change nothing"`
}

func (in editInput) about() (directory, path string) { return in.Directory, in.Path }

type editItem struct {
	Old string `json:"old_text" jsonschema:"text to replace; must occur exactly once unless replace_all is set"`
	New string `json:"new_text" jsonschema:"what to put in its place"`
	All bool   `json:"replace_all,omitempty" jsonschema:"replace every occurrence"`
}

// WriteResult is what write_file and edit_file return.
type WriteResult struct {
	Outcome       string    `json:"outcome" jsonschema:"completed, unchanged, dry_run, or pending_approval"`
	Path          string    `json:"path" jsonschema:"relative to the working folder"`
	Step          int64     `json:"step_id" jsonschema:"the step to undo; 0 if nothing was changed"`
	Created       bool      `json:"created"`
	BytesWritten  int64     `json:"bytes_written"`
	Replacements  int       `json:"replacements,omitempty"`
	Diff          string    `json:"diff,omitempty" jsonschema:"unified diff of an edit"`
	DiffTruncated bool      `json:"diff_truncated,omitempty"`
	Approval      *Approval `json:"approval,omitempty" jsonschema:"set if outcome is pending_approval"`
}

const maxDiff = 64 << 10

func (s *Server) addWriteTools() {
	addRaw(s, definition{
		name: "write_file", description: descWrite,
		hints:  hints{title: "Write a file", destructive: true, idempotent: true},
		limits: map[string]func(*jsonschema.Schema){"encoding": oneOf("text", "base64")},
	}, s.writeFile)
	one, many := 1, 100
	addRaw(s, definition{
		name: "edit_file", description: descEdit,
		hints: hints{title: "Edit a file", destructive: true},
		limits: map[string]func(*jsonschema.Schema){"edits": func(p *jsonschema.Schema) {
			p.Types, p.Type = nil, "array"
			p.MinItems, p.MaxItems = &one, &many
		}},
	}, s.editFile)
}

func (s *Server) writeFile(ctx context.Context, req *sdk.CallToolRequest, live api.Live, in writeInput) (*sdk.CallToolResult, *WriteResult, error) {
	data := []byte(in.Content)
	if in.Encoding == "base64" {
		var err error
		if data, err = base64.StdEncoding.DecodeString(in.Content); err != nil {
			return nil, nil, fmt.Errorf("content is not base64: %w", err)
		}
	}
	return s.write(ctx, req, live, "write_file", func(ctx context.Context, from api.Origin) (api.WriteResult, error) {
		return live.WriteFile(ctx, api.WriteFileRequest{
			Directory: in.Directory, Path: in.Path, Data: data, Parents: true, Create: in.Create, Origin: from,
		})
	})
}

func (s *Server) editFile(ctx context.Context, req *sdk.CallToolRequest, live api.Live, in editInput) (*sdk.CallToolResult, *WriteResult, error) {
	edits := make([]api.Edit, len(in.Edits))
	for i, e := range in.Edits {
		if e.Old == "" {
			return nil, nil, errors.New("old_text is empty: use write_file to make a file")
		}
		edits[i] = api.Edit{Old: e.Old, New: e.New, All: e.All}
	}
	return s.write(ctx, req, live, "edit_file", func(ctx context.Context, from api.Origin) (api.WriteResult, error) {
		return live.EditFile(ctx, api.EditFileRequest{Directory: in.Directory, Path: in.Path, Edits: edits, DryRun: in.DryRun, Origin: from})
	})
}

// write runs f as a job, for it may be held.
func (s *Server) write(ctx context.Context, req *sdk.CallToolRequest, live api.Live, tool string, f func(context.Context, api.Origin) (api.WriteResult, error)) (*sdk.CallToolResult, *WriteResult, error) {
	j, err := s.resumed(ctx, req, live)
	if err != nil {
		return nil, nil, err
	}
	if j == nil {
		j = s.start(ctx, live, tool, func(ctx context.Context, from api.Origin) (any, error) {
			res, err := f(ctx, from)
			return writeResult(res), err
		})
	}
	v, err := s.await(ctx, req, live, j, true)
	if err == nil && v.question == nil && v.pending == nil {
		err = j.err
	}
	if err != nil || v.question != nil {
		return v.question, nil, err
	}
	res := heldWrite(j, v.pending)
	return textResult(res.text()), res, nil
}

func writeResult(r api.WriteResult) *WriteResult {
	res := &WriteResult{
		Outcome: "completed", Path: frontend.Valid(r.Path), Step: int64(r.Step), Created: r.Created,
		BytesWritten: r.BytesWritten, Replacements: r.Replacements, Diff: frontend.Valid(r.Diff),
	}
	if len(res.Diff) > maxDiff {
		res.Diff, res.DiffTruncated = string(frontend.Whole([]byte(res.Diff[:maxDiff]))), true
	}
	switch {
	case r.DryRun:
		res.Outcome = "dry_run"
	case r.Step == 0:
		res.Outcome = "unchanged"
	}
	return res
}

func heldWrite(j *job, pending *Approval) *WriteResult {
	if pending == nil {
		return j.result.(*WriteResult)
	}
	return &WriteResult{Outcome: "pending_approval", Step: pending.StepID, Approval: pending}
}

func (r *WriteResult) text() string {
	if r.Approval != nil {
		return r.Approval.text()
	}
	diff := r.Diff
	if r.DiffTruncated {
		diff += "\n[... the rest of the diff is left out ...]\n"
	}
	switch {
	case r.Outcome == "dry_run":
		return diff + "[dry run: nothing was changed]"
	case r.Outcome == "unchanged":
		return "[" + r.Path + " has this content already: nothing was changed]"
	case r.Created:
		return fmt.Sprintf("[created %s, %s; step %d; undo removes it]", r.Path, count(int(r.BytesWritten), "byte"), r.Step)
	}
	return fmt.Sprintf("%s[wrote %s, %s; step %d; undo reverts it]", diff, r.Path, count(int(r.BytesWritten), "byte"), r.Step)
}

type resultInput struct {
	Handle string  `json:"handle" jsonschema:"the handle of a result with outcome pending_approval"`
	Wait   float64 `json:"wait_seconds,omitempty" jsonschema:"how long to wait for the end; default 30"`
}

// JobResult is what get_result returns.
type JobResult struct {
	Status   string         `json:"status" jsonschema:"done, running, or pending_approval"`
	Tool     string         `json:"tool" jsonschema:"the tool that was called"`
	Command  *CommandResult `json:"command,omitempty" jsonschema:"the result of execute_command, when done"`
	Write    *WriteResult   `json:"write,omitempty" jsonschema:"the result of write_file or edit_file, when done"`
	Approval *Approval      `json:"approval,omitempty" jsonschema:"what is awaited"`
}

func (s *Server) getResult(ctx context.Context, _ *sdk.CallToolRequest, _ api.Live, in resultInput) (*sdk.CallToolResult, *JobResult, error) {
	j, err := s.job(in.Handle)
	if err != nil {
		return nil, nil, err
	}
	wait := 30 * time.Second
	if in.Wait > 0 {
		wait = time.Duration(in.Wait * float64(time.Second))
	}
	over := make(chan struct{})
	stop := s.clock.AfterFunc(wait, func() { close(over) })
	defer stop()
	select {
	case <-j.done:
	case <-over:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	res, text := &JobResult{Status: "running", Tool: j.tool}, "[still running]"
	select {
	case <-j.done:
		if j.err != nil {
			return nil, nil, j.err
		}
		res.Status = "done"
		switch r := j.result.(type) {
		case *CommandResult:
			res.Command, text = r, r.text()
		case *WriteResult:
			res.Write, text = r, r.text()
		}
	default:
		if p, _ := j.held(); p != nil {
			res.Status, res.Approval = "pending_approval", approval(*p, j.handle)
			text = res.Approval.text()
		}
	}
	return textResult(text), res, nil
}
