package control

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// drawMessage draws a message of any fields. Lists that are drawn are not empty,
// since an empty one is not written.
func drawMessage(t *rapid.T) *Message {
	text := func(name string) Text {
		return Text(rapid.OneOf(
			rapid.SampledFrom([]string{"", "plain", "a/b c=d", `quo"te\`, "<&>\u2028\x7f", "\xff\xfe", "a\x00b\n", "grüße"}), rapid.String(),
		).Draw(t, name))
	}
	texts := func(name string) (list []Text) {
		for range rapid.IntRange(0, 3).Draw(t, name) {
			list = append(list, text(name))
		}
		return list
	}
	m := &Message{
		Type: rapid.SampledFrom([]Type{TypeExec, TypeStepStarted, TypeStopped, TypeStepCompleted, TypeOutput, TypeHello, "", "new"}).Draw(t, "type"),
		ID:   rapid.Int64().Draw(t, "id"), Command: text("command"), Argv: texts("argv"), Env: texts("env"),
		EnvAgain: rapid.Bool().Draw(t, "again"), Cwd: text("cwd"), Stdin: rapid.Bool().Draw(t, "stdin"),
		FDs: rapid.Int().Draw(t, "fds"), GraceMS: rapid.Int64().Draw(t, "grace"), Signal: rapid.Int().Draw(t, "signal"),
		Rows: rapid.Uint16().Draw(t, "rows"), Cols: rapid.Uint16().Draw(t, "cols"), Stream: string(text("stream")), Data: text("data"),
		Bytes: rapid.Int().Draw(t, "bytes"), StepID: rapid.Int64().Draw(t, "step"), TimeNS: rapid.Int64().Draw(t, "time"),
		Request: rapid.Int64().Draw(t, "request"), Port: rapid.Uint16().Draw(t, "port"), DurationNS: rapid.Int64().Draw(t, "duration"), Alone: rapid.Bool().Draw(t, "alone"), Agent: string(text("agent")),
		Error: string(text("error")), Version: rapid.Int().Draw(t, "version"),
	}
	if rapid.Bool().Draw(t, "tty") {
		m.TTY = &TTY{Rows: rapid.Uint16().Draw(t, "rows"), Cols: rapid.Uint16().Draw(t, "cols"), Of: rapid.Uint8().Draw(t, "of"), Stops: rapid.Bool().Draw(t, "stops")}
	}
	if rapid.Bool().Draw(t, "ended") {
		n := rapid.Int().Draw(t, "code")
		m.ExitCode = &n
	}
	for range rapid.IntRange(0, 3).Draw(t, "numbers") {
		m.Further = append(m.Further, rapid.Int().Draw(t, "further"))
		m.Ignored = append(m.Ignored, rapid.Int().Draw(t, "ignored"))
	}
	for _, w := range texts("warnings") {
		m.Warnings = append(m.Warnings, string(w))
	}
	return m
}

func TestWrittenAsEncodingJSONDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t)
		want, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.appendTo(nil); string(got) != string(want) {
			t.Fatalf("%s\nwant %s", got, want)
		}
	})
}

// What every command waits for is read without encoding/json.
func TestScansWhatCommandsNeed(t *testing.T) {
	zero := 0
	for _, m := range []*Message{
		{Type: TypeExec, ID: 7, Argv: []Text{"sh", "-c", "go test ./..."}, EnvAgain: true, Cwd: "/home/user/a project", FDs: 3},
		{Type: TypeExec, ID: 7, Argv: []Text{"make"}, EnvAgain: true, Cwd: "/", FDs: 5, Further: []int{3, 63}, Ignored: []int{1, 2}},
		{Type: TypeExec, ID: 8, Argv: []Text{"true"}, Env: []Text{"PATH=/bin", "EMPTY="}, Cwd: "/"},
		{Type: TypeStepStarted, ID: -7},
		{Type: TypeStepCompleted, ID: 7, ExitCode: &zero, DurationNS: 123456789, Alone: true},
		{Type: TypeStepCompleted, ID: 7, ExitCode: &zero, Signal: 9},
	} {
		line := m.appendTo(nil)
		if got, ok := scan(line); !ok || !reflect.DeepEqual(got, m) {
			t.Errorf("%s was read as %+v, %v", line, got, ok)
		}
	}
}

// FuzzScan holds the scanner to encoding/json: it may leave a message to that,
// but not read it otherwise.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		`{"type":"exec","id":1,"argv":["sh","-c","true"],"env":["A=b"],"cwd":"/","fds":3}`,
		`{"type":"exec","id":1,"argv":["a\"b"],"env_again":true}`,
		`{"type":"step_completed","id":-12,"exit_code":0,"duration_ns":999999999999999999,"alone":true}`,
		`{"type":"step_completed","id":1,"exit_code":01}`, `{"type":"step_completed","id":1,"signal":-0}`,
		`{"type":"step_started","id":1,"id":2}`, `{"type":"step_started","ID":1}`, `{"type":"step_started","id":9999999999999999999}`,
		`{"type":"exec","id":1,"argv":["x"],"fds":5,"further":[3,4],"ignored":[1]}`, `{"type":"exec","further":[]}`, `{"type":"exec","further":[-1,]}`,
		`{"type":"exec","id":1,"argv":["x"],"tty":{"rows":24,"cols":80,"stops":true}}`, `{"type":"stopped","id":1,"signal":20}`,
		`{"type":"exec","argv":[]}`, `{"type":"exec","argv":["a",]}`, `{"cwd":"\xff"}`, `{}`, `{,}`, `{"alone":false}`, `{"alone":tru}`, `null`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		got, ok := scan(line)
		if !ok {
			return
		}
		want := new(Message)
		if err := json.Unmarshal(line, want); err != nil {
			t.Fatalf("%q was read as %+v: %v", line, got, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q was read as %+v, want %+v", line, got, want)
		}
	})
}
