package house

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// row is one row of the table: packages that may import the same.
type row struct {
	packages []string // "." is the module's root; a last "/..." means all below too
	imports  []string // nil if anything is true
	anything bool
}

func (r row) has(pkg string) bool {
	for _, p := range r.packages {
		if above, all := strings.CutSuffix(p, "/..."); p == pkg || all && (pkg == above || strings.HasPrefix(pkg, above+"/")) {
			return true
		}
	}
	return false
}

// readTable reads the table of a Markdown file: the rows whose first cell is code,
// below the heading that begins with "## Packages".
func readTable(file string) ([]row, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	_, section, ok := strings.Cut(string(text), "\n## Packages")
	if !ok {
		return nil, fmt.Errorf("%s has no section Packages", file)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return parseTable(section)
}

func parseTable(section string) (rows []row, err error) {
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 {
			return nil, fmt.Errorf("%d cells instead of 3: %s", len(cells), line)
		}
		var r row
		if r.packages, err = paths(cells[0]); err != nil {
			return nil, err
		}
		switch allowed := strings.TrimSpace(cells[2]); allowed {
		case "anything":
			r.anything = true
		case "nothing":
		default:
			if r.imports, err = paths(allowed); err != nil {
				return nil, err
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// list is a cell of paths: `a`, `b/{c,d}`.
var list = regexp.MustCompile("^`[^`]+`(, `[^`]+`)*$")

func paths(cell string) (all []string, err error) {
	cell = strings.TrimSpace(cell)
	if !list.MatchString(cell) {
		return nil, fmt.Errorf("not a list of packages: %q", cell)
	}
	for _, word := range strings.Split(strings.Trim(cell, "`"), "`, `") {
		all = append(all, expand(word)...)
	}
	return all, nil
}

// expand writes out the braces of a path.
func expand(path string) (all []string) {
	before, rest, ok := strings.Cut(path, "{")
	if !ok {
		return []string{path}
	}
	choices, after, _ := strings.Cut(rest, "}")
	for _, c := range strings.Split(choices, ",") {
		all = append(all, expand(before+c+after)...)
	}
	return all
}
