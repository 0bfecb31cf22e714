package runtimeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/shellquote"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// commands are some with each of the rules.
var commands = map[string][]string{
	"":                              nil,
	" \t\r\n":                       nil,
	"echo 'hello world'":            {"echo", "hello world"},
	`a"b c"d 'e'"f"\ g`:             {"ab cd", "ef g"},
	`"" '' x""`:                     {"", "", "x"},
	`"\$x \" \\ \n"`:                {`\$x " \ \n`},
	`'\' "a'b"`:                     {`\`, "a'b"},
	"a\\\nb c\nd":                   {"a\nb", "c", "d"},
	`sh -c 'ls | wc -l; echo "$1"'`: {"sh", "-c", `ls | wc -l; echo "$1"`},
	"echo # $HOME *;":               {"echo", "#", "$HOME", "*;"},
	"é\u00a0ü\v\f":                  {"é\u00a0ü\v\f"},
	"a\x00b":                        {"a\x00b"},
}

func TestSplit(t *testing.T) {
	for command, want := range commands {
		if got, err := split(command); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", command, got, err, want)
		}
	}
	for command, want := range map[string]error{
		"'": errQuotation, `a "b`: errQuotation, `"\"`: errQuotation, `\`: errEscaped, `a "\`: errEscaped, `'\`: errQuotation,
	} {
		if got, err := split(command); !errors.Is(err, want) {
			t.Errorf("%q: %q, %v", command, got, err)
		}
	}
}

// TestSplitLikeClients: clients count on what Python's shlex.split does, so it does it here, too.
func TestSplitLikeClients(t *testing.T) {
	python := require.Program(t, "python3", "python3")
	random := rand.New(rand.NewPCG(1, 2))
	all := []string{"'", `"`, `\`, `a\`, `"\"`}
	for command := range commands {
		all = append(all, command)
	}
	for range 3000 {
		var b strings.Builder
		for range random.IntN(12) {
			b.WriteString([]string{"a", "é", " ", "\n", "\r", "\t", "'", `"`, `\`, "$x", "|", "#", "\x00", "\v", "\u00a0"}[random.IntN(15)])
		}
		all = append(all, b.String())
	}
	in, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", `
import json, shlex, sys
def words(text):
    try:
        return shlex.split(text)
    except ValueError:
        return None
json.dump([words(text) for text in json.load(sys.stdin)], sys.stdout)`)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want [][]string
	if err := json.Unmarshal(out, &want); err != nil || len(want) != len(all) {
		t.Fatal(err, len(want))
	}
	for i, command := range all {
		got, err := split(command)
		if (err != nil) != (want[i] == nil) || err == nil && !slices.Equal(got, want[i]) {
			t.Errorf("%q: %q, %v; Python has %q", command, got, err, want[i])
		}
	}
}

// FuzzSplit: whatever a client sends, words that are quoted are these words again, and nothing of what is not quoted is lost.
func FuzzSplit(f *testing.F) {
	for command := range commands {
		f.Add(command)
	}
	f.Fuzz(func(t *testing.T, command string) {
		if got, err := split(shellquote.Words(command, "x")); err != nil || !slices.Equal(got, []string{command, "x"}) {
			t.Fatalf("%q, quoted: %q, %v", command, got, err)
		}
		words, err := split(command)
		if err != nil {
			return
		}
		if again, err := split(shellquote.Words(words...)); err != nil || !slices.Equal(again, words) {
			t.Fatalf("%q: %q, and again %q, %v", command, words, again, err)
		}
		if !strings.ContainsAny(command, `'"\`) && strings.Join(words, "") != strings.NewReplacer(" ", "", "\t", "", "\r", "", "\n", "").Replace(command) {
			t.Fatalf("%q: %q", command, words)
		}
	})
}
