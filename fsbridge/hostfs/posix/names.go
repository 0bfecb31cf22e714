package posix

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// longestName is how many UTF-16 units a name can have on Windows.
const longestName = 255

// windowsDevices are names that mean no file on Windows, whatever extension follows: those of Microsoft's "Naming Files, Paths, and
// Namespaces", and the console's of CreateFile. COM0 and LPT0 are files: that page had them from 2022 to 2025, and no Windows did.
var windowsDevices = map[string]bool{
	"CON": true, "PRN": true, "AUX": true, "NUL": true, "CONIN$": true, "CONOUT$": true,
	"COM1": true, "COM2": true, "COM3": true, "COM4": true, "COM5": true, "COM6": true, "COM7": true, "COM8": true, "COM9": true,
	"COM¹": true, "COM²": true, "COM³": true,
	"LPT1": true, "LPT2": true, "LPT3": true, "LPT4": true, "LPT5": true, "LPT6": true, "LPT7": true, "LPT8": true, "LPT9": true,
	"LPT¹": true, "LPT²": true, "LPT³": true,
}

// WindowsName refuses what cannot be the name of a file on Windows, or what other programs there could not reach: a path, a
// stream of a file ("a:b"), a device ("nul.txt"), a dot or a space at the end, which Win32 takes away. The kernel below Win32
// takes most of them, and makes a file that nobody can remove. The error is ENOENT, EILSEQ, EINVAL or ENAMETOOLONG, and why goes
// on a sentence that begins with the name. It is the same on each system.
func WindowsName(name string) (why string, err error) {
	base, _, _ := strings.Cut(name, ".")
	switch {
	case name == "":
		return "is no name", ENOENT
	case !utf8.ValidString(name):
		return "is not UTF-8", EILSEQ
	case name == "." || name == "..":
		return "is no name", EINVAL
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
		return "ends with a dot or a space, which Windows takes away", EINVAL
	case windowsDevices[strings.ToUpper(strings.TrimRight(base, " "))]:
		return "is a device", EINVAL
	}
	units := 0
	for _, r := range name {
		if r < ' ' || strings.ContainsRune(`\/:*?"<>|`, r) {
			return fmt.Sprintf("has the character %q", r), EINVAL
		}
		units += utf16.RuneLen(r)
	}
	if units > longestName {
		return fmt.Sprintf("has %d UTF-16 units, and %d are allowed", units, longestName), ENAMETOOLONG
	}
	return "", nil
}

// checkWindowsName is [WindowsName] for calls.
func checkWindowsName(name string) error {
	_, err := WindowsName(name)
	return err
}

// mayBeShort tells whether a name has the form of those that Windows makes up beside long ones: eight characters and three, and a tilde that is
// not the last of the eight.
func mayBeShort(name string) bool {
	base, extension, _ := strings.Cut(name, ".")
	tilde := strings.LastIndexByte(base, '~')
	return tilde > 0 && tilde < len(base)-1 && len(base) <= 8 && len(extension) <= 3
}
