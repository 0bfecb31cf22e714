package texts_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/codeagent/sandbox/fsbridge/texts"
)

func TestName(t *testing.T) {
	for in, want := range map[string]string{
		"":                                "",
		"src/main.go":                     "src/main.go",
		"a name":                          "a name",
		"größe/日本語":                       "größe/日本語",
		"e\u0301":                         "e\u0301", // as macOS writes é
		"\x1b[2J":                         `"\x1b[2J"`,
		"\u009b2J":                        `"\u009b2J"`,
		"a\nb\tc":                         `"a\nb\tc"`,
		"txt.\u202egpj":                   `"txt.\u202egpj"`,
		"\u2066x\u2069":                   `"\u2066x\u2069"`,
		"a\u200bb\ufeff":                  `"a\u200bb\ufeff"`,
		"a\u3164b\ufe0f":                  `"a\u3164b\ufe0f"`,
		"\xff\xfe":                        `"\xff\xfe"`,
		"\ufffd":                          `"\ufffd"`,
		"a\u00a0b":                        `"a\u00a0b"`,
		"\U000e0041":                      `"\U000e0041"`,
		`a"b\` + "\x00":                   `"a\"b\\\x00"`,
		"a\u0300\u0300\u0300\u0300\u0300": `"a` + "\u0300\u0300\u0300\u0300" + `\u0300"`,
	} {
		if got := texts.Name(in); got != want {
			t.Errorf("Name(%+q) = %s, want %s", in, got, want)
		}
	}
	long := strings.Repeat("a", 2000) + "/" + strings.Repeat("ö", 1000) + "/the-end"
	got := texts.Name(long)
	if len(got) > texts.Most+40 || !strings.HasPrefix(got, "aaa") || !strings.HasSuffix(got, "/the-end") || !strings.Contains(got, " bytes …]") {
		t.Errorf("a name of %d bytes is shown as %d: %s", len(long), len(got), got)
	}
	if got := texts.Quoted("x"); got != `"x"` {
		t.Errorf("Quoted(x) = %s", got)
	}
}

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"rm  -rf\n /":  "rm -rf /",
		"a\x1b]0;t\ab": "a<001B>]0;t<0007>b",
		"\u202ex":      "<202E>x",
		"\xffx":        "<FF>x",
	} {
		if got := texts.Line(in); got != want {
			t.Errorf("Line(%+q) = %s, want %s", in, got, want)
		}
	}
	if got := texts.Lines("a\n    b\u2028c"); len(got) != 2 || got[1] != "    b c" {
		t.Errorf("Lines: %q", got)
	}
	if got := texts.Clip("abcdef", 4); got != "abc…" {
		t.Errorf("Clip: %s", got)
	}
}

// TestMessage: lines and tabs stay, nothing else acts, and of a long text the beginning and the end are there.
func TestMessage(t *testing.T) {
	for in, want := range map[string]string{
		"a: no\n\tb: no":                      "a: no\n\tb: no",
		"a\x1b[2J\r\n\u202eb\xff":             "a<001B>[2J<000D>\n<202E>b<FF>",
		strings.Repeat("a", 50) + "\x1b\nend": strings.Repeat("a", 10) + "[… 35 bytes …]aaaaa<001B>\nend",
	} {
		if got := texts.Message(in, 20); got != want {
			t.Errorf("Message(%+q) = %q, want %q", in, got, want)
		}
	}
}

// FuzzPrintable says what always holds, whatever a program has chosen.
func FuzzPrintable(f *testing.F) {
	for _, s := range []string{"", "a", "\x1b[31m", "\u202e", "\xff", "a\u0300\u0300\u0300\u0300\u0300\u0300", strings.Repeat("é", 600), strings.Repeat("\xc3", 4096), "\"\\", "\ufffd", " \u2800", "<b>&lt;\\x3c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		unmarked := texts.Unmarked(texts.Line(s))
		if strings.ContainsAny(unmarked, "<>&\\") {
			t.Errorf("Unmarked(%q): %q", s, unmarked)
		}
		for what, got := range map[string]string{
			"Name": texts.Name(s), "Quoted": texts.Quoted(s), "Line": texts.Line(s), "Inert": texts.Inert(s), "Lines": strings.Join(texts.Lines(s), ""), "Unmarked": unmarked,
			"Message": strings.NewReplacer("\n", "", "\t", "").Replace(texts.Message(s, texts.Most)),
		} {
			if !utf8.ValidString(got) {
				t.Errorf("%s(%q) is no UTF-8: %q", what, s, got)
			}
			marks := 0
			for _, r := range got {
				if !texts.Clean(r) {
					t.Errorf("%s(%q) shows %U", what, s, r)
				}
				if r >= 0x300 && r < 0x370 {
					if marks++; marks > 4 {
						t.Fatalf("%s(%q) stacks marks", what, s)
					}
				} else {
					marks = 0
				}
			}
			if n := 10*texts.Most + 64; len(got) > n && what != "Inert" && what != "Lines" {
				t.Errorf("%s of %d bytes has %d", what, len(s), len(got))
			}
		}
		if n := utf8.RuneCountInString(texts.Clip(s, 7)); n > 7 {
			t.Errorf("Clip(%q, 7) has %d characters", s, n)
		}
	})
}
