package console

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/codeagent/sandbox/fsbridge/texts"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

var update = flag.Bool("update", false, "write the pictures into testdata")

var now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// draw returns the picture, and fails if a line is wider than the terminal.
func draw(t testing.TB, entries []undolog.Entry, o GraphOptions) string {
	t.Helper()
	var b strings.Builder
	o.Now = now
	if err := DrawGraph(&b, entries, o); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSuffix(line, "\n")
		if w := max(ansi.StringWidth(line), ansi.StringWidthWc(line)); o.Width > 0 && w > o.Width {
			t.Errorf("%d columns of %d: %q", w, o.Width, line)
		}
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is another picture (-update accepts it):\n%s\nwant:\n%s", name, got, want)
	}
}

// step is an entry; ago and took are in milliseconds.
func step(id int, command string, ago, took int, paths int, change ...func(*undolog.Entry)) undolog.Entry {
	at, seq := now.Add(-time.Duration(ago)*time.Millisecond), id
	e := undolog.Entry{
		Seq: uint64(max(seq, -seq)), StepID: undolog.StepID(id), Type: undolog.TypeCommand, Command: command, Status: "completed",
		StartedAt: at, EndedAt: at.Add(time.Duration(took) * time.Millisecond), AffectedCount: paths,
	}
	for _, f := range change {
		f(&e)
	}
	return e
}

func typed(typ undolog.StepType) func(*undolog.Entry) { return func(e *undolog.Entry) { e.Type = typ } }
func undone(e *undolog.Entry)                         { e.Undone = true }
func of(run int) func(*undolog.Entry) {
	return func(e *undolog.Entry) { e.Group = undolog.StepID(run) }
}
func begins(run int) func(*undolog.Entry) {
	return func(e *undolog.Entry) { e.Group, e.GroupStart = undolog.StepID(run), true }
}
func exits(n int) func(*undolog.Entry) { return func(e *undolog.Entry) { e.ExitCode = &n } }

func barrier(after, ago int, paths ...string) undolog.Entry {
	at := now.Add(-time.Duration(ago) * time.Millisecond)
	return undolog.Entry{StepID: undolog.StepID(after), Type: undolog.TypeBarrier, StartedAt: at, EndedAt: at, AffectedPaths: paths,
		AffectedCount: len(paths), Barriers: []undolog.Barrier{{After: undolog.StepID(after), At: at, Paths: paths}}}
}

// everything has each kind of entry.
func everything() []undolog.Entry {
	const minute = 60e3
	return WithMarks([]undolog.Entry{
		step(12, "rm -r build", 1000, 3, 40, undone),
		step(11, "npm test", 0.5*minute, 900, 2, undone, of(7)),
		step(10, "npm ci", 2*minute, 21500, 12345, of(7), func(e *undolog.Entry) { e.CommandCount = 3 }),
		barrier(9, 2.5*minute, "src/main.go", "README.md"),
		step(9, "", 3*minute, 12, 1, typed(undolog.TypeAmbient), of(7), func(e *undolog.Entry) { e.StepID = -1 }),
		step(8, "restore src --step 3", 4*minute, 1, 7, typed(undolog.TypeAPI)),
		step(7, "codex", 5*minute, 130, 1, begins(7)),
		step(6, "dd if=/dev/zero of=big", 60*minute, 61000, 1, func(e *undolog.Entry) { e.Unprotected = true }),
		step(5, "make\tinstall\x1b[2J", 61*minute, 4000, 3, exits(2)),
		step(4, "touch a", 3*24*60*minute, 0, 1),
	}, []undolog.Mark{
		{Name: "start", At: now.Add(-100 * time.Hour)},
		{Name: "before", After: 8, Seq: 8, At: now.Add(-4 * time.Minute)},
		{Name: "größe", After: 11, Seq: 11, At: now.Add(-20 * time.Second)},
		{Name: "gone", After: 3, Seq: 3, Lost: "steps after it were pushed out of the history"},
	})
}

func TestPictures(t *testing.T) {
	for _, c := range []struct {
		name    string
		entries []undolog.Entry
		o       GraphOptions
	}{
		{"everything", everything(), GraphOptions{Width: 100}},
		{"no_terminal", everything(), GraphOptions{}},
		{"ascii", everything(), GraphOptions{Width: 100, ASCII: true}},
		{"painted", everything(), GraphOptions{Width: 100, Paint: Painter{on: true}}},
		{"running", append([]undolog.Entry{{Type: TypeOpen, StepID: 13, Command: "make test", StartedAt: now.Add(-time.Minute), CommandCount: 2}}, everything()[:2]...), GraphOptions{Width: 100}},
		{"width_72", everything(), GraphOptions{Width: 72}},
		{"width_40", everything(), GraphOptions{Width: 40}},
		{"width_20", everything(), GraphOptions{Width: 20}},
		// Two runs at once, one of a single step, one that has lost its beginning; a lane that is
		// free is taken again.
		{"runs", []undolog.Entry{
			step(20, "a2", 1000, 10, 1, of(18)),
			step(19, "b2", 2000, 10, 2, of(17)),
			step(18, "a1", 3000, 10, 3, begins(18)),
			step(17, "b1", 4000, 10, 4, begins(17)),
			step(16, "alone", 5000, 10, 5),
			step(15, "c1", 6000, 10, 6, begins(15)),
			step(14, "d2", 7000, 10, 7, of(9)),
			step(13, "between", 8000, 10, 8),
			step(12, "d1", 9000, 10, 9, of(9)),
		}, GraphOptions{Width: 80}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := draw(t, c.entries, c.o)
			if c.o.Paint.on {
				got = strings.ReplaceAll(got, "\x1b", "^")
			}
			golden(t, c.name, got)
		})
	}
}

// The picture in the documents is one that is drawn.
func TestDocumented(t *testing.T) {
	const minute = 60e3
	entries := WithMarks([]undolog.Entry{
		step(8, "rm notes", 2000, 12, 1, undone),
		step(7, "npm ci", 2*minute, 1210, 40, of(4)),
		step(5, "restore src --step 3", 3*minute, 1, 1, typed(undolog.TypeAPI)),
		step(-1, "", 3*minute, 3, 1, typed(undolog.TypeAmbient), of(4), func(e *undolog.Entry) { e.Seq = 5 }),
		step(4, "codex", 4*minute, 130, 1, begins(4)),
		barrier(3, 5*minute, "a.txt"),
		step(3, "make", 6*minute, 20, 4),
	}, []undolog.Mark{{Name: "before", After: 7, Seq: 7, At: now.Add(-2 * time.Minute)}})
	got := draw(t, entries, GraphOptions{Width: 80})
	cli, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	picture, _, _ := strings.Cut(got, "\n\n")
	if !strings.Contains(string(cli), "\n"+got+"```") || !strings.Contains(string(doc), "\n//\t"+strings.ReplaceAll(picture, "\n", "\n//\t")) {
		t.Errorf("docs/cli.md or doc.go shows another picture than:\n%s", got)
	}
}

// More runs at once than there are lanes: each step of the others names its run.
func TestManyRunsAtOnce(t *testing.T) {
	var entries []undolog.Entry
	for i := range 20 {
		entries = append(entries, step(40-i, "new", 1000, 1, 1, of(i+1)))
	}
	for i := range 20 {
		entries = append(entries, step(20-i, "old", 1000, 1, 1, begins(i+1)))
	}
	for _, width := range []int{0, 100, 30, 10} {
		got := draw(t, entries, GraphOptions{Width: width})
		if want := manyLanes + 2*(20-manyLanes); strings.Count(got, "[run ") != want && (width == 0 || width == 100) {
			t.Errorf("width %d: %d runs are named, want %d:\n%s", width, strings.Count(got, "[run "), want, got)
		}
	}
}

// The words are those of the page.
func TestKindsAreThePages(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "actors", "frontend", "ui", "page", "timeline.js"))
	if err != nil {
		t.Fatal(err)
	}
	for key, kind := range map[string]Kind{
		"command": KindCommand, "api": KindAPI, "ambient": KindAmbient,
		"barrier": KindBarrier, "undone": KindUndone, "mark": KindMark,
	} {
		if want := fmt.Sprintf("%s: %q", key, kind); !strings.Contains(string(b), want) {
			t.Errorf("the page does not say %s", want)
		}
	}
	for _, g := range []glyphs{unicodeGlyphs(), asciiGlyphs()} {
		seen := map[string]bool{}
		for kind, s := range g.kinds {
			if seen[s] || textWidth(s) != 1 {
				t.Errorf("%s: %q", kind, s)
			}
			seen[s] = true
		}
		for _, s := range []string{g.first, g.middle, g.last, g.alone, g.pass, g.rule} {
			if textWidth(s) != 1 {
				t.Errorf("%q has %d columns", s, textWidth(s))
			}
		}
	}
}

// A long history is drawn in a moment: the time does not grow with the number of runs.
func TestLongHistory(t *testing.T) {
	var entries []undolog.Entry
	for i := 10000; i > 0; i-- {
		e := step(i, "make", 1000, 1, i%7, of(i/3+1))
		e.GroupStart = i%3 == 0
		entries = append(entries, e)
	}
	begin := time.Now()
	got := draw(t, entries, GraphOptions{Width: 120})
	if lines := strings.Count(got, "\n"); lines != len(entries)+3 {
		t.Errorf("%d lines", lines)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
}

// FuzzDraw: whatever names and commands are, a picture has no character that a terminal acts
// on, and no line is too wide.
func FuzzDraw(f *testing.F) {
	f.Add("make", "before", "src/a", uint16(80), uint8(0), false)
	f.Add("\x1b]0;title\x07rm -rf \u202e/ \u200b\u2066", "m\u0301\u0301\u0301\u0301\u0301\u0301", "日本語/\xff\n", uint16(7), uint8(3), false)
	f.Add(strings.Repeat("日本語 ", 300), "🇩🇪👩‍👩‍👧", "a\tb", uint16(33), uint8(200), true)
	f.Add("각\u1100\u1161\u11a8 ไทย देवनागरी ﷽", "\u0b95\u0bcd\u0bb7", "ö", uint16(60), uint8(77), true)
	f.Fuzz(func(t *testing.T, command, mark, path string, width uint16, shape uint8, plain bool) {
		run, n := int(shape%5), int(shape)
		entries := WithMarks([]undolog.Entry{
			{Type: TypeOpen, StepID: undolog.StepID(-n), Command: mark, Group: undolog.StepID(run), CommandCount: n},
			step(9, command, n, n, n, undone, of(run)),
			step(8, path, n*1e5, n*1e6, n<<20, of(run+1), func(e *undolog.Entry) { e.Status = mark }),
			barrier(7, n, path, command),
			barrier(7, n),
			step(7, mark, -n, -n, -n, of(run), typed(undolog.TypeAPI), func(e *undolog.Entry) { e.CommandCount = n }),
			step(-6, command, n, n, n, of(run), typed(undolog.TypeAmbient), func(e *undolog.Entry) { e.Damaged = path }),
			step(5, command+mark, n, n, n, begins(run+1), exits(n)),
			step(4, command, n, n, n, typed(undolog.StepType(path))),
		}, []undolog.Mark{{Name: mark, Seq: uint64(shape % 10)}, {Name: command, Seq: 5}})
		for _, o := range []GraphOptions{{Width: int(width%300) + 1, ASCII: plain}, {ASCII: plain}} {
			got := draw(t, entries, o)
			if most := len(entries) + 3 + 7; strings.Count(got, "\n") > most {
				t.Errorf("%d lines of %d entries", strings.Count(got, "\n"), len(entries))
			}
			for _, r := range strings.ReplaceAll(got, "\n", "") {
				if !texts.Clean(r) || o.ASCII && r > unicode.MaxASCII {
					t.Fatalf("%U in %q", r, got)
				}
			}
			o.Paint = Painter{on: true}
			if painted := ansi.Strip(draw(t, entries, o)); stripped(painted) != stripped(got) {
				t.Errorf("with colours it is another picture:\n%s\n%s", painted, got)
			}
		}
	})
}

// stripped is a picture without spaces at the ends of lines, which colours may hold.
func stripped(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}
