package stepline

import "github.com/codeagent/sandbox/fsbridge/shellquote"

// Changed is the line, with its end. Where is empty, or names the folder; how says how the step is undone, or why it
// cannot be.
func Changed(step int64, paths int, where, how string) string {
	return "step " + Decimal(step) + ": " + Paths(paths) + " changed" + where + ", " + how + "\n"
}

// Undo is the command that undoes the newest step, with the flags that are needed where it was run. Flags that are empty are left
// out.
func Undo(folder, undoDir, configFile string) string {
	words := []string{"sandbox", "undo"}
	for _, flag := range [...][2]string{{"--working-dir", folder}, {"--undo-dir", undoDir}, {"--config-file", configFile}} {
		if flag[1] != "" {
			words = append(words, flag[0], flag[1])
		}
	}
	return "undo with: " + shellquote.Words(words...)
}

// Paths is "1 path" or "12 paths".
func Paths(n int) string {
	if n == 1 {
		return "1 path"
	}
	return Decimal(int64(n)) + " paths"
}

// Decimal is a number in digits: strconv.FormatInt, whose package is initialised late.
func Decimal(n int64) string {
	if n < 0 {
		return "-" + Decimal(-n)
	}
	digits := ""
	for ; n > 9; n /= 10 {
		digits = string(rune('0'+n%10)) + digits
	}
	return string(rune('0'+n)) + digits
}
