package house

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the module's.
var root = filepath.Join("..", "..", "..")

// mostLines is how long a file may be that is no test.
const mostLines = 500

func TestPackagesAreAsTheTableSays(t *testing.T) {
	table, err := readTable(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	packages, err := readPackages(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(table) < 20 || len(packages) < 40 {
		t.Fatalf("read only %d rows and %d packages", len(table), len(packages))
	}
	for _, complaint := range check(table, packages) {
		t.Error(complaint)
	}
}

// check compares the table with the packages.
func check(table []row, packages []pack) (wrong []string) {
	complain := func(format string, a ...any) { wrong = append(wrong, fmt.Sprintf(format, a...)) }
	at := func(pkg string) int { return slices.IndexFunc(table, func(r row) bool { return r.has(pkg) }) }

	used := make([]map[string]bool, len(table)) // by row: the imports
	full := make([]map[string]bool, len(table)) // by row: the packages that are there
	for i := range table {
		used[i], full[i] = map[string]bool{}, map[string]bool{}
	}
	for _, p := range packages {
		i := at(p.path)
		if i < 0 {
			complain("%s: no row of the table has this package", p.path)
			continue
		}
		r := table[i]
		for _, entry := range r.packages {
			if (row{packages: []string{entry}}).has(p.path) {
				full[i][entry] = true
			}
		}
		if r.anything {
			continue
		}
		for _, to := range p.imports {
			used[i][to] = true
			if !slices.Contains(r.imports, to) {
				complain("%s imports %s: the table does not allow it", p.path, to)
			}
			if j := at(to); j >= 0 && j <= i {
				complain("%s imports %s: that is not below it in the table", p.path, to)
			}
		}
	}
	for i, r := range table {
		for _, entry := range r.packages {
			if !full[i][entry] {
				complain("%s: the table has a row for it, but there is no such package", entry)
			}
			if first := at(entry); first != i && !strings.HasSuffix(entry, "/...") {
				complain("%s: the table has two rows for it", entry)
			}
		}
		for _, to := range r.imports {
			if !used[i][to] {
				complain("%s may import %s: nobody does", strings.Join(r.packages, ", "), to)
			}
		}
	}
	return wrong
}

func TestNoFileIsTooLarge(t *testing.T) {
	packages, err := readPackages(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		for file, n := range p.lines {
			if n > mostLines {
				t.Errorf("%s/%s has %d lines: a file has at most %d", p.path, file, n, mostLines)
			}
		}
	}
}

func TestEveryPackageIsDocumented(t *testing.T) {
	packages, err := readPackages(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		if p.path != "tests" && !p.documented { // tests has only a list of tools
			t.Errorf("%s: no doc.go with the package's documentation", p.path)
		}
	}
}

// TestRulesAreSeen breaks each rule once.
func TestRulesAreSeen(t *testing.T) {
	const top, low = "| `top` | - | `a/{one,two}`, `low` |\n", "| `low` | - | nothing |\n"
	const group, free = "| `a/{one,two}` | - | `low` |\n", "| `tests/...` | - | anything |\n"
	house := []pack{
		{path: "top", imports: []string{"a/one", "a/two", "low"}},
		{path: "a/one", imports: []string{"low"}}, {path: "a/two"}, {path: "low"},
		{path: "tests/kit", imports: []string{"top", "a/one"}},
	}
	with := func(p pack) []pack {
		list := slices.DeleteFunc(slices.Clone(house), func(o pack) bool { return o.path == p.path })
		return append(list, p)
	}
	for _, c := range []struct {
		name, table string
		packages    []pack
		want        string
	}{
		{"as it should be", top + group + low + free, house, ""},
		{"a package without a row", top + group + low + free, with(pack{path: "new"}), "new: no row"},
		{"a row without a package", top + group + low + "| `gone` | - | nothing |\n" + free, house, "gone: the table has a row"},
		{"a group that lacks a package", top + strings.Replace(group, "two", "two,three", 1) + low + free, house, "a/three: the table has a row"},
		{"two rows", top + group + low + low + free, house, "low: the table has two rows"},
		{"an import that is not allowed", top + group + low + "| `more` | - | nothing |\n" + free, append(with(pack{path: "more"}), pack{path: "more", imports: []string{"new"}}), "more imports new: the table does not allow"},
		{"an import that is not used", top + strings.Replace(group, "`low`", "`low`, `more`", 1) + low + "| `more` | - | nothing |\n" + free, with(pack{path: "more"}), "a/one, a/two may import more: nobody does"},
		{"an arrow upward", group + top + low + free, house, "top imports a/one: that is not below"},
		{"an arrow within a group", top + strings.Replace(group, "`low`", "`low`, `a/two`", 1) + low + free, with(pack{path: "a/one", imports: []string{"low", "a/two"}}), "a/one imports a/two: that is not below"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table, err := parseTable(c.table)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(check(table, c.packages), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("want %q, got:\n%s", c.want, got)
			}
		})
	}
	for _, malformed := range []string{"| `a` | - | what it likes |\n", "| `a` | - |\n", "| `a` and others | - | nothing |\n"} {
		if _, err := parseTable(malformed); err == nil {
			t.Errorf("accepted %q", malformed)
		}
	}
}
