package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// gemini is the API that Gemini CLI uses, in a folder.
type gemini struct{ dir string }

func (gemini) contentType() string { return "text/event-stream" }

func (gemini) results(path string, body []byte) (results []string, ok bool, err error) {
	if !strings.HasSuffix(path, ":streamGenerateContent") {
		return nil, false, nil
	}
	var request struct {
		Contents []struct {
			Parts []struct {
				Response *struct{ Response json.RawMessage } `json:"functionResponse"`
			}
		}
		Tools []json.RawMessage
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, false, err
	}
	for _, c := range request.Contents {
		for _, p := range c.Parts {
			if p.Response != nil {
				results = append(results, string(p.Response.Response))
			}
		}
	}
	return results, len(request.Tools) > 0, nil
}

// answer streams one candidate: function calls or a text.
func (d gemini) answer(w io.Writer, _ []byte, n int, t turn) error {
	parts := []any{map[string]string{"text": "done"}}
	if len(t) > 0 {
		parts = nil
	}
	for i, c := range t {
		name, args := "run_shell_command", map[string]string{"command": c.shell}
		if c.edit != nil {
			name, args = "replace", map[string]string{"file_path": filepath.Join(d.dir, c.edit.path), "instruction": "write the digit", "old_string": c.edit.old, "new_string": c.edit.new}
		}
		parts = append(parts, map[string]any{"functionCall": map[string]any{"id": fmt.Sprintf("call_%d", n+i), "name": name, "args": args}})
	}
	return event(w, "", map[string]any{
		"candidates":    []any{map[string]any{"index": 0, "finishReason": "STOP", "content": map[string]any{"role": "model", "parts": parts}}},
		"usageMetadata": map[string]int{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
		"modelVersion":  "scripted", "responseId": fmt.Sprintf("resp_%d", n),
	})
}
