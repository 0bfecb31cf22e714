package frontend

import (
	"errors"
	"strings"
	"testing"
)

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// What is no JSON is told apart from what is JSON and refused.
func TestCheckJSON(t *testing.T) {
	fields := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(`,"` + strings.Repeat("x", i/26) + string(rune('a'+i%26)) + `":1`)
		}
		return "{" + b.String()[1:] + "}"
	}
	for _, c := range []struct {
		name, text    string
		ok, malformed bool
	}{
		{"object", `{"a":[1,-0.5e3,"b\u00e9",true,null]}`, true, false},
		{"deepest", nested(MaxDepth + 1), true, false},
		{"deeper", nested(MaxDepth + 2), false, false},
		{"most fields", fields(MaxFields), true, false},
		{"more fields", fields(MaxFields + 1), false, false},
		{"twice", `{"a":1,"\u0061":2}`, false, false},
		{"long number", strings.Repeat("1", 65), false, false},
		{"half", `{"a"`, false, true},
		{"two", `{} {}`, false, true},
		{"not UTF-8", "\"\xff\"", false, true},
		{"nothing", ``, false, true},
	} {
		err := CheckJSON([]byte(c.text))
		var bad *JSONError
		if (err == nil) != c.ok || err != nil && (!errors.As(err, &bad) || bad.Malformed != c.malformed) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := CheckJSON([]byte(`1e999`)); err != nil {
		t.Error(err)
	}
	if err := CheckFiniteJSON([]byte(`[1e999]`)); err == nil {
		t.Error("a number that is not finite")
	}
}
