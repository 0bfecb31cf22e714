package stdio

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// dialect is the JSON Schema dialect of the schemas.
const dialect = "https://json-schema.org/draft/2020-12/schema"

// Schemas returns the JSON Schema of every message: "NAME.request" and
// "NAME.response" for each operation, "error.response", and each event. They
// are made of the types of this package and are committed in the directory
// schema. With exact set, messages of the server may have no other fields than
// those known here; clients must not insist on that.
func Schemas(exact bool) (map[string]*jsonschema.Schema, error) {
	all := map[string]*jsonschema.Schema{}
	for _, op := range operations() {
		payload, err := schemaOf(op.request, true, true)
		if err != nil {
			return nil, err
		}
		all[op.name+".request"] = requestSchema(op.name, payload)
		result, err := schemaOf(op.result, exact, false)
		if err != nil {
			return nil, err
		}
		r := object(exact, "type", constant("response"), "request_id", text1(), "status", constant("ok"), "payload", result)
		if len(result.Required) == 0 {
			r.Required = r.Required[:3]
		}
		all[op.name+".response"] = describe(r, "Answers "+op.name+".")
	}
	failure, err := schemaOf(reflect.TypeFor[Error](), exact, false)
	if err != nil {
		return nil, err
	}
	for _, c := range Codes() {
		failure.Properties["code"].Enum = append(failure.Properties["code"].Enum, string(c.Code))
	}
	id := &jsonschema.Schema{Types: []string{"string", "null"}, Description: "null where the request's could not be read"}
	all["error.response"] = describe(object(exact, "type", constant("response"), "request_id", id, "status", constant("error"), "error", failure),
		"Answers any request that failed, and what is no request.")
	for name, t := range events() {
		payload, err := schemaOf(t, exact, false)
		if err != nil {
			return nil, err
		}
		all[name] = describe(object(exact, "type", constant(name), "payload", payload), "Sent without being asked for.")
	}
	for name, s := range all {
		s.Schema, s.Title = dialect, name
	}
	return all, nil
}

// events are the payloads of the events.
func events() map[string]reflect.Type {
	return map[string]reflect.Type{
		EventStepStarted:          reflect.TypeFor[StepStarted](),
		EventStepCompleted:        reflect.TypeFor[StepCompleted](),
		EventTerminalOutput:       reflect.TypeFor[Output](),
		EventAgentOutput:          reflect.TypeFor[Output](),
		EventWarning:              reflect.TypeFor[Warning](),
		EventError:                reflect.TypeFor[ErrorEvent](),
		EventSafeguardTriggered:   reflect.TypeFor[SafeguardTriggered](),
		EventSafeguardDecided:     reflect.TypeFor[SafeguardDecided](),
		EventApprovalRequested:    reflect.TypeFor[ApprovalRequested](),
		EventExternalModification: reflect.TypeFor[ExternalModification](),
		EventRecovery:             reflect.TypeFor[RecoveryEvent](),
		EventUndoVersionMismatch:  reflect.TypeFor[UndoVersionMismatchEvent](),
		EventSessionState:         reflect.TypeFor[SessionState](),
		EventNetwork:              reflect.TypeFor[Network](),
		EventServiceEnded:         reflect.TypeFor[ServiceResult](),
	}
}

func requestSchema(name string, payload *jsonschema.Schema) *jsonschema.Schema {
	s := object(true, "type", constant(name), "request_id", text1(), "payload", payload)
	if len(payload.Required) == 0 {
		s.Required = s.Required[:2]
	}
	return describe(s, "Asks for "+name+".")
}

// schemaOf infers a payload's schema. Fields that may be left out may be null in
// a request, and never are in what we send.
func schemaOf(t reflect.Type, exact, request bool) (*jsonschema.Schema, error) {
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[time.Time](): {Type: "string", Format: "date-time"},
	}})
	if err != nil {
		return nil, err
	}
	tidy(s, exact, request)
	if request {
		asSent(s, t)
	}
	return s, nil
}

// asSent leaves out of a request what a client cannot send, and lets it name a folder by its index, too.
func asSent(s *jsonschema.Schema, t reflect.Type) {
	zero := 0.0
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if sent, _ := fieldName(f); sent == "-" {
			delete(s.Properties, name)
			s.PropertyOrder = slices.DeleteFunc(s.PropertyOrder, func(p string) bool { return p == name })
			s.Required = slices.DeleteFunc(s.Required, func(p string) bool { return p == name })
		} else if isDirectory(f) {
			p := s.Properties[name]
			p.Type, p.Types, p.Minimum = "", []string{"string", "integer"}, &zero
		}
	}
}

// tidy opens objects that need not be exact, and makes lists that are never
// null say so.
func tidy(s *jsonschema.Schema, exact, request bool) {
	if s == nil {
		return
	}
	if !exact && s.Type == "object" && s.Properties != nil {
		s.AdditionalProperties = nil
	}
	if !request && len(s.Types) == 2 && s.Types[0] == "null" && s.Types[1] == "array" {
		s.Type, s.Types = "array", nil
	}
	for _, p := range s.Properties {
		tidy(p, exact, request)
	}
	tidy(s.Items, exact, request)
}

// object makes an object of required properties, given as names and schemas.
func object(exact bool, properties ...any) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	for i := 0; i < len(properties); i += 2 {
		name := properties[i].(string)
		s.Properties[name] = properties[i+1].(*jsonschema.Schema)
		s.Required = append(s.Required, name)
		s.PropertyOrder = append(s.PropertyOrder, name)
	}
	if exact {
		s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	}
	return s
}

func describe(s *jsonschema.Schema, text string) *jsonschema.Schema {
	s.Description = text
	return s
}

func constant(v string) *jsonschema.Schema {
	var value any = v
	return &jsonschema.Schema{Const: &value}
}

func text1() *jsonschema.Schema {
	one, most := 1, MaxRequestID
	return &jsonschema.Schema{Type: "string", MinLength: &one, MaxLength: &most}
}

// SchemaName says by which schema a message of the server is to be judged.
// operation is that of the request which a response answers.
func SchemaName(message []byte, operation string) string {
	var m struct{ Type, Status string }
	_ = json.Unmarshal(message, &m)
	switch {
	case m.Type != "response":
		return m.Type
	case m.Status == "error":
		return "error.response"
	}
	return operation + ".response"
}
