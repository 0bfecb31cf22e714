package posix

import (
	"strings"
	"testing"
)

func TestWindowsNames(t *testing.T) {
	for err, names := range map[error][]string{
		nil: {"a", "a.txt", ".git", "..a", "a b", " a", "Ärger", "日本", "con1", "console", "com", "com0", "com10", "lpt", "nulls.txt",
			"a.nul", "com¹⁰", "conin", "aux-1", "\U0001f600", "a\u00a0", "~$x", "a'b", "%", strings.Repeat("x", 255), strings.Repeat("ä", 255),
			strings.Repeat("\U0001f600", 127)},
		ENOENT: {""},
		EINVAL: {".", "..", "a.", "a ", "...", " ", ". .", "a. ", `a\b`, "a/b", "a:b", "a:", ":", "a*", "a?", `a"`, "a<", "a>", "a|", "a\x00", "a\x01",
			"a\n", "a\x1f", "con", "CON", "Con.txt", "con .txt", "nul", "nul.tar.gz", "prn", "aux", "aux.h", "com1", "COM9.x", "com¹", "LPT³", "lpt1",
			"conin$", "CONOUT$", "conout$.txt", "\\\\?\\C:"},
		EILSEQ:       {"\xff", "a\xc3", "\xed\xa0\x80"},
		ENAMETOOLONG: {strings.Repeat("x", 256), strings.Repeat("ä", 256), strings.Repeat("\U0001f600", 128)},
	} {
		for _, name := range names {
			if got := checkWindowsName(name); got != err {
				t.Errorf("%.40q: %v, not %v", name, got, err)
			}
		}
	}
}

// TestWindowsDevices tries each name of a device in all ways to write it, and names that only look like one.
func TestWindowsDevices(t *testing.T) {
	if len(windowsDevices) != 6+2*(9+3) {
		t.Errorf("there are %d devices", len(windowsDevices))
	}
	for device := range windowsDevices {
		for _, name := range []string{device, strings.ToLower(device), device[:1] + strings.ToLower(device[1:])} {
			for _, end := range []string{
				"", ".", "..", " ", "  ", ". ", " .", ".txt", ".TXT", ".tar.gz", "..txt", " .txt", "  .x", ". txt", ".x.", ".x ",
				":", ":stream", "::$DATA", ".txt:stream", `\x`, "/x", "." + device,
			} {
				if why, err := WindowsName(name + end); err != EINVAL || why == "" {
					t.Errorf("%q: %v, %q", name+end, err, why)
				}
			}
			for _, other := range []string{"x" + name, name + "x", name + "-.txt", name + "0", " " + name, "." + name, "x." + name, name + "$", name + "\u00a0"} {
				if why, err := WindowsName(other); err != nil && !windowsDevices[strings.ToUpper(other)] {
					t.Errorf("%q %s", other, why)
				}
			}
		}
	}
}

func TestShortNames(t *testing.T) {
	for name, want := range map[string]bool{
		"PROGRA~1": true, "a~1": true, "LONGNA~1.TXT": true, "AB1234~1.c": true, "LONG~A0B.H": true, "x~10": true,
		"a": false, "file~": false, "~": false, "~1": false, "~$doc.x": false, "longname~1": false, "a~1.html": false, "a.x~1": false, "": false,
	} {
		if got := mayBeShort(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func FuzzWindowsNames(f *testing.F) {
	for _, name := range []string{"a", "con.txt", "a:b", "\xff", "x ", "..", "com¹"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if checkWindowsName(name) != nil {
			return
		}
		if name == "" || strings.ContainsAny(name, "\\/:\x00") || strings.Trim(name, ". ") == "" || strings.HasSuffix(name, ".") || len(name) > 4*longestName {
			t.Errorf("%q is taken", name)
		}
		if checkWindowsName(strings.ToUpper(name)+".x") == EINVAL {
			t.Errorf("%q is taken, but not as a part of another name", name)
		}
	})
}
