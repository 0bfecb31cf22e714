package texts

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// applyHunks applies what Hunks wrote.
func applyHunks(t *testing.T, a []byte, hunks string) string {
	t.Helper()
	lines := splitLines(a)
	var out strings.Builder
	at := 0
	emit := func(s string) { out.WriteString(s) }
	rest := strings.SplitAfter(hunks, "\n")
	for i := 0; i < len(rest); i++ {
		line := rest[i]
		if line == "" {
			continue
		}
		if strings.HasPrefix(line, "@@") {
			old, _, _ := strings.Cut(strings.TrimPrefix(line, "@@ -"), " ")
			first, count, has := strings.Cut(old, ",")
			start, err := strconv.Atoi(first)
			if err != nil {
				t.Fatal(line)
			}
			if !has || count != "0" {
				start--
			}
			for ; at < start; at++ {
				emit(string(lines[at]))
			}
			continue
		}
		text := line[1:]
		if i+1 < len(rest) && strings.HasPrefix(rest[i+1], "\\") {
			text = strings.TrimSuffix(text, "\n")
			i++
		}
		switch line[0] {
		case ' ', '-':
			if at >= len(lines) || string(lines[at]) != text {
				t.Fatalf("hunk does not match at line %d: %q", at, line)
			}
			at++
		}
		if line[0] != '-' {
			emit(text)
		}
	}
	for ; at < len(lines); at++ {
		emit(string(lines[at]))
	}
	return out.String()
}

func TestHunks(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 3000 {
		file := func(base []string) []string {
			out := []string{}
			for _, l := range base {
				switch r.IntN(8) {
				case 0:
				case 1:
					out = append(out, fmt.Sprintln(r.IntN(5)), l)
				default:
					out = append(out, l)
				}
			}
			return out
		}
		var base []string
		for range r.IntN(40) {
			base = append(base, fmt.Sprintln(r.IntN(6)))
		}
		cut := func(l []string) string {
			s := strings.Join(l, "")
			if r.IntN(4) == 0 {
				s = strings.TrimSuffix(s, "\n")
			}
			return s
		}
		a, b := cut(file(base)), cut(file(base))
		var w bytes.Buffer
		if err := Hunks(&w, []byte(a), []byte(b)); err != nil {
			t.Fatal(err)
		}
		if got := applyHunks(t, []byte(a), w.String()); got != b {
			t.Fatalf("round %d: %q -> %q by\n%s gives %q", i, a, b, w.String(), got)
		}
	}
	// Too different for a shortest diff: bounded, and right.
	var a, b strings.Builder
	for i := range 20_000 {
		fmt.Fprintln(&a, i, r.Uint32())
		fmt.Fprintln(&b, i, r.Uint32())
	}
	var w bytes.Buffer
	if err := Hunks(&w, []byte(a.String()), []byte(b.String())); err != nil {
		t.Fatal(err)
	}
	if applyHunks(t, []byte(a.String()), w.String()) != b.String() {
		t.Error("a large diff is wrong")
	}
	// One line in the middle: one hunk with three lines around.
	w.Reset()
	if err := Hunks(&w, []byte("1\n2\n3\n4\n5\n6\n7\n8\n"), []byte("1\n2\n3\n4\nx\n6\n7\n8\n")); err != nil {
		t.Fatal(err)
	}
	if want := "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n"; w.String() != want {
		t.Errorf("got\n%s", w.String())
	}
}
