package mcp

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const plainCall = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"execute_command","arguments":{"command":"echo \"a\" > b\n","timeout_seconds":1.5}}}`

// What clients send most is read without three decoders.
func TestPlainRequests(t *testing.T) {
	for text, plain := range map[string]bool{
		plainCall: true,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`:                    true,
		` { "jsonrpc" : "2.0" , "id" : "x" , "method" : "tools/list", "params":{}}`: true,
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                                      false,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}`:                              false,
		`{"jsonrpc":"2.0","id":null,"method":"x"}`:                                  false,
		`{"jsonrpc":"2.0","id":1.5,"method":"x"}`:                                   false,
		`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,"a":1}}`:              false,
		`{"jsonrpc":"2.0","id":1,"method":"x"} x`:                                   false,
	} {
		if _, _, ok := scanRequest([]byte(text)); ok != plain {
			t.Errorf("%s: plain %v, want %v", text, ok, plain)
		}
	}
}

// FuzzPlainRequest holds the scanner to the decoders: it may leave a message to
// them, but not read it otherwise.
func FuzzPlainRequest(f *testing.F) {
	for _, s := range []string{
		plainCall, `{"jsonrpc":"2.0","id":"a","method":"x","params":{"a":[1,-0.5,true,null,{}],"b":{"c":"\t\\"}}}`,
		`{"jsonrpc":"2.0","id":-0,"method":"x"}`, `{"jsonrpc":"2.0","id":9007199254740993,"method":"x"}`, `{"jsonrpc":"2.0","id":01,"method":"x"}`,
		`{"jsonrpc":"2.0","method":"x","params":[1]}`, `{"jsonrpc":"2.0","method":"x","Method":"y"}`, `{"jsonrpc":"2.0","method":"\u0078"}`,
		`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1e999,"b":"\ud800"}}`, `{"jsonrpc":"2.0","id":1,"method":"x",}`, `[]`, `{}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		req, env, ok := scanRequest(text)
		if !ok {
			return
		}
		wantEnv, problem := inspect(text)
		if problem != nil {
			t.Fatalf("%q was taken: %v", text, problem)
		}
		msg, err := jsonrpc.DecodeMessage(text)
		if err != nil {
			t.Fatalf("%q was taken: %v", text, err)
		}
		want, ok := msg.(*jsonrpc.Request)
		if !ok || !reflect.DeepEqual(env, wantEnv) || req.ID != want.ID || req.Method != want.Method || string(req.Params) != string(want.Params) {
			t.Fatalf("%q was read as %+v %+v, want %+v %+v", text, req, env, msg, wantEnv)
		}
	})
}

// FuzzPlainArguments holds the quick check of arguments to the schema's.
func FuzzPlainArguments(f *testing.F) {
	for _, s := range []string{
		`{"command":"true"}`, `{"command":"true","timeout_seconds":3600}`, `{"command":"true","timeout_seconds":3601}`,
		`{"command":"true","max_output_bytes":1.0}`, `{"command":"true","max_output_bytes":99999999999999999999}`, `{"command":1}`,
		`{"command":null}`, `{"Command":"true"}`, `{"cwd":"x"}`, `{"command":"x","env":{"A":"b"}}`, `{"command":"\ud800"}`, `null`,
	} {
		f.Add([]byte(s))
	}
	schema := schemaOf[commandInput](map[string]func(*jsonschema.Schema){
		"timeout_seconds": between(0, MaxTimeout.Seconds()), "max_output_bytes": between(0, maxKeptOutput),
	})
	resolved, err := schema.Resolve(nil)
	if err != nil {
		f.Fatal(err)
	}
	plain := simplify(schema)
	if !plain.fits(json.RawMessage(`{"command":"true","cwd":"sub","timeout_seconds":10,"max_output_bytes":1000}`)) {
		f.Fatal("no arguments of execute_command are plain")
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !plain.fits(text) {
			return
		}
		got, err := arguments[commandInput](text, plain, resolved)
		want, wantErr := arguments[commandInput](text, simple{}, resolved)
		if !reflect.DeepEqual(got, want) || (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %+v, %v; want %+v, %v", text, got, err, want, wantErr)
		}
	})
}
