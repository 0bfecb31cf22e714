package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// chat is OpenAI's Chat Completions API, as opencode uses it in a folder.
type chat struct{ dir string }

func (chat) contentType() string { return "text/event-stream" }

func (chat) results(path string, body []byte) (results []string, ok bool, err error) {
	if !strings.HasSuffix(path, "/chat/completions") {
		return nil, false, nil
	}
	var request struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
		Tools []json.RawMessage
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, false, err
	}
	for _, m := range request.Messages {
		if m.Role == "tool" {
			results = append(results, string(m.Content))
		}
	}
	return results, len(request.Tools) > 0, nil
}

// answer streams one choice: tool calls or a text.
func (d chat) answer(w io.Writer, _ []byte, n int, t turn) error {
	delta, finish := map[string]any{"role": "assistant", "content": "done"}, "stop"
	if len(t) > 0 {
		var calls []any
		for i, c := range t {
			name, input := "bash", map[string]string{"command": c.shell}
			if c.edit != nil {
				name, input = "edit", map[string]string{"filePath": filepath.Join(d.dir, c.edit.path), "oldString": c.edit.old, "newString": c.edit.new}
			}
			args, err := json.Marshal(input)
			if err != nil {
				return err
			}
			calls = append(calls, map[string]any{"index": i, "id": fmt.Sprintf("call_%d", n+i), "type": "function",
				"function": map[string]string{"name": name, "arguments": string(args)}})
		}
		delta, finish = map[string]any{"role": "assistant", "tool_calls": calls}, "tool_calls"
	}
	for _, choice := range []map[string]any{
		{"index": 0, "delta": delta, "finish_reason": nil},
		{"index": 0, "delta": map[string]any{}, "finish_reason": finish},
	} {
		if err := event(w, "", map[string]any{"id": fmt.Sprintf("chat_%d", n), "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": []any{choice}}); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "data: [DONE]\n\n")
	return err
}
