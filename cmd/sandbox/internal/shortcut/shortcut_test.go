package shortcut

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		args string
		want line
	}{
		{"run true", line{argv: []string{"true"}}},
		{"run -- true", line{argv: []string{"true"}}},
		{"run -- -x -- y", line{argv: []string{"-x", "--", "y"}}},
		{"run sh -c -- x", line{argv: []string{"sh", "-c", "--", "x"}}},
		{"run -C d --undo-dir=u --env A=b --env=C --keep 10m --timeout 2s -- true", line{
			folder: "d", undo: "u", env: []string{"A=b", "C"}, keep: 10 * time.Minute, limit: 2 * time.Second, argv: []string{"true"},
		}},
		{"run --log-level debug --log-format=json true", line{logs: true, argv: []string{"true"}}},
		{"run --env -- -- true", line{env: []string{"--"}, argv: []string{"true"}}},
	} {
		got, ok := parse(strings.Fields(c.args))
		if !ok || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v", c.args, got, ok)
		}
	}
	for _, other := range []string{
		"", "run", "run --", "step true", "-C d run true", "run --json true", "run -v true", "run - true", "run -Cd true", "run -C=d true", "run --working-dir",
		"run -C a -C b true", "run -C label=d true", "run -C d:ro true", "run --keep x true", "run --keep -1s true", "run --timeout= true", "run --network open true",
		"run --help", "run --service web true", "run --env", "run --undo-dir a --undo-dir b true",
	} {
		if got, ok := parse(strings.Fields(other)); ok {
			t.Errorf("%q is taken: %+v", other, got)
		}
	}
}

// TestAsk: what is sent says what was asked for, whatever bytes are in it.
func TestAsk(t *testing.T) {
	type params struct {
		Argv    []string      `json:"argv"`
		Env     []string      `json:"env"`
		Dir     string        `json:"dir"`
		Further []int         `json:"further"`
		Ignored []int         `json:"ignored"`
		Timeout time.Duration `json:"timeout_ns"`
		Wants   struct {
			Directories []struct {
				Path, Label, UndoDir string
				ReadOnly             bool
			} `json:"directories"`
			Keep time.Duration `json:"keep_ns"`
		} `json:"wants"`
	}
	type request struct {
		ID     int    `json:"id"`
		Method string `json:"method"`
		Params params `json:"params"`
		FDs    int    `json:"fds"`
	}
	every := "\"\\/<&>\u2028é\x7f"
	for c := range rune(' ') {
		every += string(c)
	}
	for _, l := range []line{
		{argv: []string{"true"}},
		{argv: []string{every, ""}, folder: "/" + every, undo: "/u", keep: time.Hour, limit: time.Nanosecond},
		{argv: []string{"x"}, keep: 3},
		{argv: []string{"x"}, further: []int{3, 63}, ignored: []int{1}},
	} {
		b, ok := ask(l, []string{"A=" + every}, "/d")
		var got request
		d := json.NewDecoder(strings.NewReader(string(b)))
		d.DisallowUnknownFields()
		if err := d.Decode(&got); err != nil || !ok || !strings.HasSuffix(string(b), "\n") || strings.Count(string(b), "\n") != 1 {
			t.Fatalf("%v, %v: %s", err, ok, b)
		}
		want := request{ID: 1, Method: "run", FDs: 3 + len(l.further), Params: params{Further: l.further, Ignored: l.ignored, Argv: l.argv, Env: []string{"A=" + every}, Dir: "/d", Timeout: l.limit}}
		want.Params.Wants.Keep = l.keep
		if l.folder != "" {
			want.Params.Wants.Directories = append(want.Params.Wants.Directories, struct {
				Path, Label, UndoDir string
				ReadOnly             bool
			}{Path: l.folder, UndoDir: l.undo})
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for _, l := range []line{{argv: []string{"\xff"}}, {argv: []string{strings.Repeat("x", maxRequest)}}} {
		if _, ok := ask(l, nil, "/d"); ok {
			t.Errorf("%.10q is sent", l.argv)
		}
	}
}

func TestRead(t *testing.T) {
	const begun = `{"id":1,"part":{"accepted":true}}` + "\n" + `{"id":1,"part":{"started":{"step_id":7,"command_id":1}}}` + "\n"
	end := func(s string) string { return begun + `{"id":1,"result":{"step_id":7,` + s + "}}\n" }
	for _, c := range []struct {
		answer        string
		end           ended
		over, strange bool
	}{
		{answer: ""},
		{answer: `{"id":1,"part":{"acc`},
		{answer: begun},
		{answer: strings.TrimSuffix(end(`"exit_code":0,"duration_ns":1,"outcome":"completed"`), "\n")},
		{answer: end(`"exit_code":3,"duration_ns":12345,"outcome":"completed"`), end: ended{status: 3}, over: true},
		{answer: end(`"exit_code":143,"signal":15,"duration_ns":1,"outcome":"completed"`), end: ended{status: 143, signal: 15}, over: true},
		{answer: end(`"exit_code":0,"duration_ns":1,"outcome":"cancelled"`), strange: true},
		{answer: end(`"exit_code":0,"duration_ns":1,"outcome":"completed","entries":[]`), strange: true},
		{answer: end(`"exit_code":0,"duration_ns":1,"outcome":"completed","limit":"memory"`), strange: true},
		{
			answer: end(`"exit_code":4,"duration_ns":1,"outcome":"completed","only":{"step_id":8,"affected_count":12,"directory":"/a b"},"entries":[{}]`),
			end:    ended{status: 4, step: 8, paths: 12, folder: "/a b"}, over: true,
		},
		{answer: end(`"exit_code":0,"duration_ns":1,"outcome":"completed","only":{"step_id":8,"affected_count":0,"directory":"/a"},"entries":[]`), strange: true},
		{answer: end(`"exit_code":0,"duration_ns":1,"outcome":"completed","only":{"step_id":-8,"affected_count":1,"directory":"/a"},"entries":[]`), strange: true},
		{answer: end(`"exit_code":0,"duration_ns":1,"outcome":"completed","only":{"step_id":8,"affected_count":1,"directory":"/\u003c"},"entries":[]`), strange: true},
		{answer: end(`"exit_code":0,"duration_ns":1,"outcome":"completed","only":{"step_id":8,"affected_count":1,"directory":"/a`), strange: true},
		{answer: end(`"exit_code":0,"duration_ns":1,"outcome":"cancelled","only":{"step_id":8,"affected_count":1,"directory":"/a"},"entries":[]`), strange: true},
		{answer: end(`"exit_code":-1,"duration_ns":1,"outcome":"completed"`), strange: true},
		{answer: end(`"exit_code":0,"duration_ns":99999999999999999999,"outcome":"completed"`), strange: true},
		{answer: begun + `{"id":1,"part":{"event":{}}}` + "\n", strange: true},
		{answer: `{"id":1,"part":{"waits":{}}}` + "\n", strange: true},
		{answer: `{"id":1,"error":{"code":"not_given","message":"x"}}` + "\n", strange: true},
		{answer: `{"id":2,"result":{"step_id":7,"exit_code":0,"duration_ns":1,"outcome":"completed"}}` + "\n", strange: true},
		{answer: "\n", strange: true},
	} {
		got, over, strange := read([]byte(c.answer))
		if over != c.over || strange != c.strange || over && got != c.end {
			t.Errorf("%s: %+v, %v, %v", c.answer, got, over, strange)
		}
	}
}

func TestRegistration(t *testing.T) {
	socket, folders, stamps, ok := registration([]byte(`{"pid":1,"session":"s","socket":"/run/s.sock","directories":["/a b","/c"],"labels":["x","y"]}`))
	if !ok || socket != "/run/s.sock" || !reflect.DeepEqual(folders, []string{"/a b", "/c"}) || stamps != nil {
		t.Errorf("%q, %q, %q, %v", socket, folders, stamps, ok)
	}
	_, _, stamps, ok = registration([]byte(`{"pid":1,"session":"s","socket":"/run/s.sock","directories":["/a"],"config_files":["1: /x","2: /y z"]}`))
	if !ok || !reflect.DeepEqual(stamps, []string{"1: /x", "2: /y z"}) {
		t.Errorf("%q, %v", stamps, ok)
	}
	for _, bad := range []string{
		``, `{}`, `{"socket":"/s"}`, `{"socket":"/s","directories":[]}`, `{"socket":"/s","directories":null}`, `{"socket":"/s`,
		`{"socket":"/s","directories":["/a\u003c"]}`, `{"socket":"/s","directories":["/a`,
	} {
		if _, _, _, ok := registration([]byte(bad)); ok {
			t.Errorf("%s is understood", bad)
		}
	}
}

func TestText(t *testing.T) {
	if !begins("ab", "a") || begins("a", "ab") || !ends("ab", "b") || ends("b", "ab") {
		t.Error("begins, ends")
	}
	if a, b, ok := cut("a--b--", "--"); a != "a" || b != "b--" || !ok {
		t.Error("cut", a, b, ok)
	}
}
