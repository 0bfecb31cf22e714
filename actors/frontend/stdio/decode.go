package stdio

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/codeagent/sandbox/actors/frontend"
)

// envelope is a line of the client.
type envelope struct {
	Type      string
	RequestID string
	hasID     bool
	Payload   []byte
}

// parseEnvelope checks a line. What could be read is returned with the error,
// so that the answer can carry the request_id.
func parseEnvelope(line []byte) (envelope, *Error) {
	var e envelope
	if err := frontend.CheckJSON(line); err != nil {
		return e, &Error{Code: InvalidJSON, Message: err.Error()}
	}
	var bad *Error
	note := func(err *Error) {
		if bad == nil {
			bad = err
		}
	}
	text := func(m frontend.Member, into *string) bool {
		if m.Value[0] != '"' {
			note(fieldError(InvalidField, m.Name, "must be a string"))
			return false
		}
		*into = frontend.Unquote(m.Value)
		return true
	}
	err := frontend.EachMember(line, func(m frontend.Member) error {
		switch m.Name {
		case "type":
			text(m, &e.Type)
		case "request_id":
			if text(m, &e.RequestID) {
				e.hasID = e.RequestID != "" && len(e.RequestID) <= MaxRequestID
				if !e.hasID {
					note(fieldError(InvalidField, m.Name, "must have 1 to %d bytes", MaxRequestID))
				}
			}
		case "payload":
			if m.Value[0] == '{' {
				e.Payload = m.Value
			} else if string(m.Value) != "null" {
				note(fieldError(InvalidField, m.Name, "must be an object"))
			}
		default:
			note(fieldError(UnknownField, frontend.Short([]byte(m.Name)), "a request has type, request_id and payload"))
		}
		return nil
	})
	switch {
	case err != nil:
		return e, &Error{Code: InvalidJSON, Message: err.Error()}
	case bad != nil:
		return e, bad
	case e.Type == "":
		return e, fieldError(MissingField, "type", "is required")
	case !e.hasID:
		return e, fieldError(MissingField, "request_id", "is required")
	}
	return e, nil
}

// decode fills the struct that into points to from a checked object. Names are
// exact; unknown ones and missing required ones are errors, and null is as if
// the field was not there.
func decode(object []byte, into any) *Error {
	if object == nil {
		object = []byte("{}")
	}
	return decodeStruct(object, reflect.ValueOf(into).Elem(), "")
}

func decodeStruct(object []byte, v reflect.Value, prefix string) *Error {
	var bad *Error
	seen := uint64(0)
	_ = frontend.EachMember(object, func(m frontend.Member) error {
		i := fieldByName(v.Type(), m.Name)
		if i < 0 {
			bad = fieldError(UnknownField, prefix+frontend.Short([]byte(m.Name)), "there is no such field")
			return bad
		}
		if string(m.Value) == "null" {
			return nil
		}
		seen |= 1 << i
		if isDirectory(v.Type().Field(i)) {
			bad = decodeDirectory(m.Value, v.Field(i), prefix+m.Name)
		} else {
			bad = decodeValue(m.Value, v.Field(i), prefix+m.Name)
		}
		if bad != nil {
			return bad
		}
		return nil
	})
	if bad != nil {
		return bad
	}
	for i := range v.NumField() {
		if name, required := fieldName(v.Type().Field(i)); required && name != "-" && seen&(1<<i) == 0 {
			return fieldError(MissingField, prefix+name, "is required")
		}
	}
	return nil
}

// fieldName is a field's name in a request; "-" if a client cannot send it: it is none of the JSON, or has the tag stdio:"-".
func fieldName(f reflect.StructField) (name string, required bool) {
	name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
	if f.Tag.Get("stdio") == "-" {
		name = "-"
	}
	return name, !strings.Contains(rest, "omit")
}

func fieldByName(t reflect.Type, name string) int {
	for i := range t.NumField() {
		if have, _ := fieldName(t.Field(i)); have == name && name != "-" {
			return i
		}
	}
	return -1
}

// isDirectory tells whether a field of a request names a working folder: by its index, its path or its label, and if it is empty the first.
func isDirectory(f reflect.StructField) bool {
	return f.Name == "Directory" && f.Type.Kind() == reflect.String
}

func decodeDirectory(raw []byte, v reflect.Value, name string) *Error {
	if n, err := strconv.ParseUint(string(raw), 10, 8); err == nil {
		v.SetString(strconv.FormatUint(n, 10))
		return nil
	}
	if raw[0] != '"' {
		return fieldError(InvalidField, name, "must be an index, a path or a label")
	}
	return decodeValue(raw, v, name)
}

func decodeValue(raw []byte, v reflect.Value, name string) *Error {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return decodeValue(raw, v.Elem(), name)
	case reflect.Struct:
		if raw[0] != '{' {
			return fieldError(InvalidField, name, "must be an object")
		}
		return decodeStruct(raw, v, name+".")
	case reflect.Slice:
		return decodeSlice(raw, v, name)
	case reflect.Map:
		return decodeMap(raw, v, name)
	case reflect.String:
		if raw[0] != '"' {
			return fieldError(InvalidField, name, "must be a string")
		}
		s := frontend.Unquote(raw)
		if strings.ContainsRune(s, 0) {
			return fieldError(InvalidField, name, "must not contain a null character")
		}
		v.SetString(s)
	case reflect.Bool:
		if raw[0] != 't' && raw[0] != 'f' {
			return fieldError(InvalidField, name, "must be true or false")
		}
		v.SetBool(raw[0] == 't')
	default:
		return decodeNumber(raw, v, name)
	}
	return nil
}

func decodeNumber(raw []byte, v reflect.Value, name string) *Error {
	if c := raw[0]; c != '-' && (c < '0' || c > '9') {
		return fieldError(InvalidField, name, "must be a number")
	}
	if v.Kind() == reflect.Float64 {
		f, err := strconv.ParseFloat(string(raw), 64)
		if err != nil {
			return fieldError(InvalidField, name, "%s is out of range", raw)
		}
		v.SetFloat(f)
		return nil
	}
	n, err := strconv.ParseInt(string(raw), 10, v.Type().Bits())
	switch {
	case errors.Is(err, strconv.ErrRange):
		return fieldError(InvalidField, name, "%s is out of range", raw)
	case err != nil:
		return fieldError(InvalidField, name, "must be an integer")
	}
	v.SetInt(n)
	return nil
}

func decodeSlice(raw []byte, v reflect.Value, name string) *Error {
	if raw[0] != '[' {
		return fieldError(InvalidField, name, "must be a list")
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return fieldError(InvalidField, name, "%v", err)
	}
	if len(items) > frontend.MaxFields {
		return fieldError(InvalidField, name, "has more than %d elements", frontend.MaxFields)
	}
	out := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		if err := decodeValue(item, out.Index(i), fmt.Sprintf("%s[%d]", name, i)); err != nil {
			return err
		}
	}
	v.Set(out)
	return nil
}

func decodeMap(raw []byte, v reflect.Value, name string) *Error {
	if raw[0] != '{' {
		return fieldError(InvalidField, name, "must be an object")
	}
	out := reflect.MakeMap(v.Type())
	var bad *Error
	_ = frontend.EachMember(raw, func(m frontend.Member) error {
		value := reflect.New(v.Type().Elem()).Elem()
		if bad = decodeValue(m.Value, value, name+"."+frontend.Short([]byte(m.Name))); bad != nil {
			return bad
		}
		out.SetMapIndex(reflect.ValueOf(m.Name), value)
		return nil
	})
	if bad == nil {
		v.Set(out)
	}
	return bad
}
