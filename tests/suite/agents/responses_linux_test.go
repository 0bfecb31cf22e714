package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// responses is OpenAI's Responses API, as Codex uses it.
type responses struct{}

func (responses) contentType() string { return "text/event-stream" }

func (responses) results(path string, body []byte) (results []string, ok bool, err error) {
	if !strings.HasSuffix(path, "/responses") {
		return nil, false, nil
	}
	var request struct {
		Input []struct {
			Type   string
			Output json.RawMessage
		}
		Tools []struct{ Name string }
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, false, err
	}
	for _, item := range request.Input {
		if item.Type == "function_call_output" {
			results = append(results, string(item.Output))
		}
	}
	return results, len(request.Tools) > 0, nil
}

// answer streams the items of a response: function calls or a message.
func (responses) answer(w io.Writer, _ []byte, n int, t turn) error {
	id := fmt.Sprintf("resp_%d", n)
	var items []map[string]any
	for i, c := range t {
		args, err := json.Marshal(map[string]any{"cmd": c.command(), "yield_time_ms": 30000}) // how long it waits for the end
		if err != nil {
			return err
		}
		items = append(items, map[string]any{
			"type": "function_call", "id": fmt.Sprintf("fc_%d", n+i), "call_id": fmt.Sprintf("call_%d", n+i),
			"name": "exec_command", "arguments": string(args), "status": "completed",
		})
	}
	if len(t) == 0 {
		items = append(items, map[string]any{
			"type": "message", "id": "msg_end", "role": "assistant", "status": "completed",
			"content": []any{map[string]any{"type": "output_text", "text": "done", "annotations": []any{}}},
		})
	}
	usage := map[string]any{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
		"input_tokens_details": map[string]int{"cached_tokens": 0}, "output_tokens_details": map[string]int{"reasoning_tokens": 0}}
	events := []map[string]any{{"type": "response.created", "response": map[string]any{"id": id, "status": "in_progress"}}}
	for i, item := range items {
		events = append(events,
			map[string]any{"type": "response.output_item.added", "output_index": i, "item": item},
			map[string]any{"type": "response.output_item.done", "output_index": i, "item": item})
	}
	events = append(events, map[string]any{"type": "response.completed", "response": map[string]any{
		"id": id, "status": "completed", "output": items, "usage": usage}})
	for _, e := range events {
		if err := event(w, e["type"].(string), e); err != nil {
			return err
		}
	}
	return nil
}

// event writes one server-sent event.
func event(w io.Writer, name string, data any) error {
	text, err := json.Marshal(data)
	if err == nil && name != "" {
		_, err = fmt.Fprintf(w, "event: %s\n", name)
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "data: %s\n\n", text)
	}
	return err
}

// command is what Codex does with the call: it knows apply_patch as a command.
func (c call) command() string {
	if c.edit == nil {
		return c.shell
	}
	return fmt.Sprintf("apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: %s\n@@\n-%s\n+%s\n*** End Patch\nEOF\n", c.edit.path, c.edit.old, c.edit.new)
}
