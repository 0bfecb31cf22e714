package house

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the picture of the packages into ARCHITECTURE.md")

const (
	pictureBegins = "<!-- The packages: written by go test ./tests/suite/house -update -->\n```\n"
	pictureEnds   = "```\n"
	mostSaid      = 100 // characters of what a package is
)

// TestPictureOfThePackages: the picture in ARCHITECTURE.md is that of the imports, and fits two pages.
func TestPictureOfThePackages(t *testing.T) {
	packages, err := readPackages(root)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(root, "ARCHITECTURE.md")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(text, []byte(pictureBegins))
	if !ok {
		t.Fatalf("ARCHITECTURE.md has no line %q", pictureBegins)
	}
	is, after, _ := bytes.Cut(rest, []byte(pictureEnds))
	want := picture(packages)
	if n := strings.Count(want, "\n"); n > 110 {
		t.Errorf("the picture has %d lines: fewer packages, please", n)
	}
	if want == string(is) {
		return
	}
	if !*update {
		t.Fatalf("the picture is of other packages; go test ./tests/suite/house -update writes it. Now it is:\n%s", want)
	}
	all := slices.Concat(before, []byte(pictureBegins), []byte(want), []byte(pictureEnds), after)
	if err := os.WriteFile(name, all, 0o644); err != nil {
		t.Fatal(err)
	}
}

// picture draws the rooms from the top down, and in each the packages: a package stands above those of its room that it imports.
func picture(packages []pack) string {
	var b strings.Builder
	for _, r := range rooms {
		fmt.Fprintf(&b, "%s", r.name)
		if len(r.uses) > 0 {
			fmt.Fprintf(&b, "  ->  %s", strings.Join(r.uses, ", "))
		}
		b.WriteString("\n")
		var inside []pack
		for _, p := range packages {
			if room(p.path) == r.name {
				inside = append(inside, p)
			}
		}
		depth := depths(inside)
		slices.SortStableFunc(inside, func(x, y pack) int {
			if d := depth[y.path] - depth[x.path]; d != 0 {
				return d
			}
			return strings.Compare(x.path, y.path)
		})
		for _, p := range inside {
			said := p.says
			if len(said) > mostSaid {
				said = said[:strings.LastIndexByte(said[:mostSaid], ' ')] + " ..."
			}
			fmt.Fprintf(&b, "  %d %-36s %s\n", depth[p.path], strings.TrimPrefix(p.path, "cmd/sandbox/internal/"), said)
		}
	}
	return b.String()
}

// depths says how many packages of the list stand below each one, in a row.
func depths(list []pack) map[string]int {
	of := map[string]*pack{}
	for i := range list {
		of[list[i].path] = &list[i]
	}
	depth := map[string]int{}
	var find func(p *pack) int
	find = func(p *pack) int {
		if d, ok := depth[p.path]; ok {
			return d
		}
		most := 0
		for _, to := range p.imports {
			if below := of[to]; below != nil {
				most = max(most, find(below)+1)
			}
		}
		depth[p.path] = most
		return most
	}
	for i := range list {
		find(&list[i])
	}
	return depth
}
