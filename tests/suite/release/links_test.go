package release

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// module is the directory of go.mod.
var module = filepath.Join("..", "..", "..")

var (
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	code    = regexp.MustCompile("`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^()\s]+(?:\([^()\s]*\))?)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *#*$`)
	named   = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N}_ -]+`)
	shown   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// anchors are the names by which GitHub lets one link to the headings of a document.
func anchors(text string) map[string]bool {
	all, times := map[string]bool{}, map[string]int{}
	text = fence.ReplaceAllString(text, "")
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		title := shown.ReplaceAllString(m[1], "$1")
		name := strings.ReplaceAll(strings.ToLower(dropped.ReplaceAllString(title, "")), " ", "-")
		if n := times[name]; n > 0 {
			all[name+"-"+string(rune('0'+n))] = true
		}
		times[name]++
		all[name] = true
	}
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		all[m[1]] = true
	}
	return all
}

// broken are the relative links of a document that lead nowhere.
func broken(root, doc string) (wrong []string, links int, err error) {
	text, err := os.ReadFile(filepath.Join(root, doc))
	if err != nil {
		return nil, 0, err
	}
	for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(fence.ReplaceAllString(string(text), ""), ""), -1) {
		u, err := url.Parse(m[1])
		if err != nil {
			wrong = append(wrong, m[1]+": "+err.Error())
			continue
		}
		if u.Scheme != "" || u.Host != "" {
			continue
		}
		links++
		target := filepath.Join(root, doc)
		if u.Path != "" {
			target = filepath.Join(root, filepath.Dir(doc), filepath.FromSlash(u.Path))
		}
		if _, err := os.Stat(target); err != nil {
			wrong = append(wrong, m[1]+": there is no such file")
			continue
		}
		if u.Fragment == "" || filepath.Ext(target) != ".md" {
			continue
		}
		there, err := os.ReadFile(target)
		if err != nil {
			return nil, 0, err
		}
		if !anchors(string(there))[u.Fragment] {
			wrong = append(wrong, m[1]+": there is no such heading")
		}
	}
	return wrong, links, nil
}

func TestLinks(t *testing.T) {
	documents, links := 0, 0
	err := filepath.WalkDir(module, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch e.Name() {
		case "node_modules", "testdata", ".git", "dist", "bin":
			if e.IsDir() {
				return fs.SkipDir
			}
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		doc, err := filepath.Rel(module, path)
		if err != nil {
			return err
		}
		wrong, n, err := broken(module, doc)
		for _, w := range wrong {
			t.Errorf("%s: %s", doc, w)
		}
		documents, links = documents+1, links+n
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if documents < 15 || links < 50 {
		t.Errorf("found only %d documents with %d links", documents, links)
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.md": "# One `thing`, done\n## Again\n## Again\n[x](b.md) [x](#one-thing-done) [x](#again-1) [x](https://example.com/none)\n" +
			"[x](none.md) [x](b.md#none) [x](#again-2) `[x](code.md)`\n```\n[x](fenced.md)\n# no heading\n```\n[x](#no-heading)\n",
		"b.md": "text",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wrong, links, err := broken(dir, "a.md")
	if err != nil || links != 7 || len(wrong) != 4 {
		t.Errorf("%d links, broken: %q, %v", links, wrong, err)
	}
}
