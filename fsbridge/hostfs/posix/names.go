package posix

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// longestName is how many UTF-16 units a name can have on Windows.
const longestName = 255

// checkWindowsName refuses what cannot be the name of a file on Windows, or what other programs there could not reach: a path, a
// stream of a file ("a:b"), a device ("nul.txt"), a dot or a space at the end, which Win32 takes away. The kernel below Win32
// takes most of them, and makes a file that nobody can remove.
func checkWindowsName(name string) error {
	switch {
	case name == "":
		return ENOENT
	case !utf8.ValidString(name):
		return EILSEQ
	case name == "." || name == "..", strings.HasSuffix(name, "."), strings.HasSuffix(name, " "), windowsDevice(name):
		return EINVAL
	}
	units := 0
	for _, r := range name {
		if r < ' ' || strings.ContainsRune(`\/:*?"<>|`, r) {
			return EINVAL
		}
		units += utf16.RuneLen(r)
	}
	if units > longestName {
		return ENAMETOOLONG
	}
	return nil
}

// windowsDevice tells whether Win32 takes a name for a device: its part before the first dot counts, without spaces at its end.
func windowsDevice(name string) bool {
	name, _, _ = strings.Cut(name, ".")
	name = strings.ToUpper(strings.TrimRight(name, " "))
	switch name {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	port, found := strings.CutPrefix(name, "COM")
	if !found {
		port, found = strings.CutPrefix(name, "LPT")
	}
	return found && utf8.RuneCountInString(port) == 1 && strings.Contains("123456789¹²³", port)
}

// mayBeShort tells whether a name has the form of those that Windows makes up beside long ones: eight characters and three, and a tilde that is
// not the last of the eight.
func mayBeShort(name string) bool {
	base, extension, _ := strings.Cut(name, ".")
	tilde := strings.LastIndexByte(base, '~')
	return tilde > 0 && tilde < len(base)-1 && len(base) <= 8 && len(extension) <= 3
}
