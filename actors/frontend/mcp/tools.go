package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/messages/logctx"
)

var (
	errDecided     = messages.ErrDecided
	errNoSafeguard = messages.ErrNoSafeguard
)

// hints are a tool's annotations; every one is set, because two of them are true
// by default.
type hints struct {
	title                             string
	readOnly, destructive, idempotent bool
	open                              bool // reaches beyond the working folders
}

func (h hints) annotations() *sdk.ToolAnnotations {
	return &sdk.ToolAnnotations{
		Title: h.title, ReadOnlyHint: h.readOnly, DestructiveHint: &h.destructive,
		IdempotentHint: h.idempotent, OpenWorldHint: &h.open,
	}
}

// definition is one tool.
type definition struct {
	name, description string
	hints             hints
	// limits narrows the input's schema down, by property.
	limits map[string]func(*jsonschema.Schema)
}

// schemaOf makes the schema of a Go type. A failure is a mistake in this package.
func schemaOf[T any](limits map[string]func(*jsonschema.Schema)) *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic("mcp: " + err.Error())
	}
	neverNull(s)
	for name, limit := range limits {
		limit(s.Properties[name])
	}
	return s
}

// neverNull gives each value one type: clients that know no lists of types
// refuse tools that have one. No result holds a null, and what is null in
// arguments is taken for left out.
func neverNull(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if types := slices.DeleteFunc(slices.Clone(s.Types), func(t string) bool { return t == "null" }); len(types) == 1 {
		s.Type, s.Types = types[0], nil
	}
	neverNull(s.Items)
	neverNull(s.AdditionalProperties)
	for _, p := range s.Properties {
		neverNull(p)
	}
}

// between limits a number, oneOf a string.
func between(low, high float64) func(*jsonschema.Schema) {
	return func(s *jsonschema.Schema) { s.Minimum, s.Maximum = &low, &high }
}

func oneOf(values ...any) func(*jsonschema.Schema) {
	return func(s *jsonschema.Schema) { s.Enum = values }
}

// add adds a tool that answers at once. h returns the structured result and the
// same for reading.
func add[In, Out any](s *Server, d definition, h func(ctx context.Context, live api.Live, in In) (*Out, string, error)) {
	addRaw(s, d, func(ctx context.Context, _ *sdk.CallToolRequest, live api.Live, in In) (*sdk.CallToolResult, *Out, error) {
		out, text, err := h(ctx, live, in)
		return textResult(text), out, err
	})
}

// addRaw adds a tool that makes its own result. Arguments are checked against
// the input's schema; the output's is made of the type of what is returned and is
// not checked again at each call, which would take longer than many calls do
// themselves: the tests check it.
func addRaw[In, Out any](s *Server, d definition, h func(ctx context.Context, req *sdk.CallToolRequest, live api.Live, in In) (*sdk.CallToolResult, *Out, error)) {
	input := schemaOf[In](d.limits)
	tool := &sdk.Tool{
		Name: d.name, Title: d.hints.title, Description: d.description, Annotations: d.hints.annotations(),
		InputSchema: input, OutputSchema: schemaOf[Out](nil),
	}
	resolved, err := input.Resolve(nil)
	if err != nil {
		panic("mcp: " + err.Error())
	}
	level := slog.LevelInfo
	if d.hints.readOnly {
		level = slog.LevelDebug
	}
	takes := usage(input)
	s.sdk.AddTool(tool, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		in, err := arguments[In](req.Params.Arguments, resolved)
		if err != nil {
			s.log.InfoContext(s.correlate(ctx), "tool call failed", "op", d.name, "err", "invalid arguments") // which they are is the client's
			return failed(fmt.Errorf("invalid arguments: %s; nothing was done. %s takes %s", wrong(err), d.name, takes))
		}
		ctx = s.correlate(ctx)
		s.log.Log(ctx, level, "request received", "op", d.name)
		live, err := s.session()
		if err != nil {
			return failed(err)
		}
		res, out, err := h(ctx, req, live, in)
		if err != nil {
			s.log.InfoContext(ctx, "tool call failed", "op", d.name, "err", err)
			directory, path := "", ""
			if about, ok := any(in).(interface {
				about() (directory, path string)
			}); ok {
				directory, path = about.about()
			}
			return failed(explain(err, directory, path))
		}
		if out != nil {
			text, err := json.Marshal(out)
			if err != nil {
				return nil, err
			}
			res.StructuredContent = json.RawMessage(text)
		}
		s.addNews(req.Session, res)
		s.log.Log(ctx, level, "response sent", "op", d.name)
		return res, nil
	})
}

// arguments checks and decodes what a call brings.
func arguments[In any](text json.RawMessage, schema *jsonschema.Resolved) (in In, err error) {
	given := map[string]any{}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &given); err != nil {
			return in, err
		}
	}
	if given == nil { // null
		given = map[string]any{}
	}
	maps.DeleteFunc(given, func(_ string, v any) bool { return v == nil })
	if err := schema.Validate(given); err != nil {
		return in, err
	}
	if len(text) > 0 {
		err = json.Unmarshal(text, &in)
	}
	return in, err
}

// usage lists the arguments that a schema has, those first that are required.
func usage(s *jsonschema.Schema) string {
	var required, optional []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if slices.Contains(s.Required, name) {
			required = append(required, name+" (required)")
		} else {
			optional = append(optional, name)
		}
	}
	return strings.Join(append(required, optional...), ", ")
}

var fraction = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b(\d+)(?:/1|\.0+)\b`) })

// wrong is what is wrong with arguments, without the way that the check took to
// find it.
func wrong(err error) string {
	text := strings.TrimPrefix(err.Error(), "validating root: ")
	text = strings.ReplaceAll(text, "validating /properties/", "")
	return fraction().ReplaceAllString(text, "$1") // numbers: -1/1 is less than 0.000000
}

// failed is the result of a call that failed: for the model, unless it is an
// error of the protocol.
func failed(err error) (*sdk.CallToolResult, error) {
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		return nil, wire
	}
	var r sdk.CallToolResult
	r.SetError(errors.New(frontend.Told(err.Error())))
	return &r, nil
}

// correlate numbers a call, for the log and for events.
func (s *Server) correlate(ctx context.Context) context.Context {
	return logctx.With(ctx, logctx.Fields{RequestID: "mcp-" + strconv.FormatInt(s.calls.Add(1), 10)})
}

func textResult(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

// where is the argument that all tools have.
type where struct {
	Directory string `json:"directory,omitempty" jsonschema:"working folder: its index (\"0\"), absolute path or label; default: the first. get_session_status lists them"`
}

// path returns the path of the working folder.
func (w where) path(ctx context.Context, live api.Live) (string, error) {
	st, err := live.Status(ctx)
	if err != nil {
		return "", err
	}
	return frontend.FoldersOf(st).Path(w.Directory)
}

func (s *Server) addTools() {
	s.addCommandTools()
	s.addWriteTools()
	s.addReadTools()
	s.addSearchTools()
	s.addUndoTools()
	s.addServiceTools()
}
