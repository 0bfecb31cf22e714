package console

import "testing"

func TestAnswer(t *testing.T) {
	for line, want := range map[string][2]PromptAnswer{ // of a question that is not lasting, and of one that is
		"y": {{Allow: true}, {Allow: true}}, " YES ": {{Allow: true}, {Allow: true}}, "": {}, "n": {}, "yy": {}, "nope": {},
		"o": {{}, {true, "once"}}, "p": {{}, {true, "project"}}, "always": {{}, {true, "user"}},
	} {
		for i, lasting := range []bool{false, true} {
			if got := (PromptQuestion{Lasting: lasting}).answer(line); got != want[i] {
				t.Errorf("%q, lasting %t: %+v", line, lasting, got)
			}
		}
	}
}
