package serve

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Separators of commands. A bare "&" is none if ">" comes next.
var separators = []string{";", "\n", "&&", "||", "|", "& ", " ;; ", "\n\n", ")", ";}"}

// checkAppend reports whether text behind a separator lowers what is said of a
// command. Text that is not complete is another command with more behind it: of
// that only what is certainly destructive must stay.
func checkAppend(t interface{ Errorf(string, ...any) }, k *Classifier, command, separator, more string) {
	r := k.Classify(command)
	if r.Unparsed && r.Class != Destructive || dangling(command) {
		return
	}
	if longer := k.Classify(command + separator + more); longer.Class < r.Class {
		t.Errorf("%q is %s, and with %q behind it %s: %v", command, r.Class, separator+more, longer.Class, r.Reasons)
	}
}

// fragments are what a command and what is appended to it are made of.
var fragments = []string{
	"rm x", "rm -rf /", "git push -f", "ls", "touch x", "find . -delete", "sh -c 'rm x'", "echo", "--dry-run", "-n", "if", "then", "fi", "while", "do", "done", "case", "in", "esac",
	"for x in a", "function f", "f()", "{", "}", "(", ")", "((", "))", "[[", "]]", "$(", "`", "${x", "$((", "'", "\"", "\\", "\n", ";", ";;", "&", "&&", "|", "||", "|&", "!",
	">", "<", ">&", "&>", ">|", "<<E", "<<-E", "<<'E'", "<<<", "E", "\nE\n", "<(", "a=", "a=(", "a[", "@(", "#", " ", "\t", "time", "coproc", "let", "export A=b", "2", "$'", "\r\n", "\xff", "\x00",
}

func TestAppendedTextNeverLowersTheClass(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(fragments), 0, 12).Draw(t, "parts"), rapid.SampledFrom([]string{"", " "}).Draw(t, "between"))
	})
	k := &Classifier{}
	rapid.Check(t, func(t *rapid.T) {
		checkAppend(t, k, text.Draw(t, "command"), rapid.SampledFrom(separators).Draw(t, "separator"), text.Draw(t, "more"))
	})
}

// What is nested deeper, or longer, than is parsed does not hide what comes
// before it.
func TestAppendedTextIsNotTooMuch(t *testing.T) {
	for _, more := range []string{
		strings.Repeat("(", 30000), strings.Repeat("((", 15000), strings.Repeat("$(", 15000), strings.Repeat("(ls;", 8000), strings.Repeat("x);", 10000), strings.Repeat("x|", 12000) + "'",
		strings.Repeat("<<a ", 8000), strings.Repeat("if ", 10000), strings.Repeat("a[", 15000), strings.Repeat("a", 40000), "'" + strings.Repeat(";", 40000),
	} {
		for _, command := range []string{"rm x", "touch x &&"} {
			for _, s := range []string{"; ", "&&"} {
				checkAppend(t, &Classifier{}, command, s, more)
			}
		}
	}
}

// The parser has no limit of its own: what is nested as often as the text allows must not
// take its stack.
func TestDepthIsLimited(t *testing.T) {
	k, err := NewClassifier(ClassifierConfig{MaxBytes: 1 << 18})
	if err != nil {
		t.Fatal(err)
	}
	for _, open := range []string{"(", "((", "((!", "$(", "`", "\"${a:-", "if ", "{ ", "f()", "a[", "@(", "[[ ( ", "<<E $("} {
		if r := k.Classify(strings.Repeat(open, 1<<18/len(open))); r.Class == ReadOnly {
			t.Errorf("%s: %+v", open, r)
		}
	}
}

func TestPatternsHaveAlternatives(t *testing.T) {
	k, err := NewClassifier(ClassifierConfig{ReadOnly: []string{"just {lint,show}"}})
	if err != nil {
		t.Fatal(err)
	}
	for cmd, want := range map[string]Class{"just lint": ReadOnly, "just show x": ReadOnly, "just fix": WriteClass} {
		if r := k.Classify(cmd); r.Class != want {
			t.Errorf("%q is %s, want %s", cmd, r.Class, want)
		}
	}
}

// FuzzAppend: whatever is put behind a separator, the class is not lowered.
func FuzzAppend(f *testing.F) {
	f.Add("rm x", "; ", "(")
	f.Add("bash <<E\nrm x\nE", ";", "ls")
	f.Add("esac; rm x", "\n", "'")
	f.Add("git push -f <<A \\", "\n", "--dry-run\nA")
	f.Add("git push -f &> '", ";", "' --dry-run")
	f.Fuzz(func(t *testing.T, command, separator, more string) {
		for _, s := range separators {
			if s == separator {
				checkAppend(t, &Classifier{}, command, s, more)
			}
		}
		checkAppend(t, &Classifier{}, command, "; ", separator+more)
	})
}
