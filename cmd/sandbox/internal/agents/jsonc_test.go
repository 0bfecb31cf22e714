package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var withComments = jsoncDialect{Comments: true}

const server = `{"command":"sandbox","args":["serve"]}`

func TestSet(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"no file":        {"", "{\n  \"mcpServers\": {\n    \"sandbox\": {\n      \"command\": \"sandbox\",\n      \"args\": [\n        \"serve\"\n      ]\n    }\n  }\n}\n"},
		"empty":          {"{}", "{\n  \"mcpServers\": {\n    \"sandbox\": {\n      \"command\": \"sandbox\",\n      \"args\": [\n        \"serve\"\n      ]\n    }\n  }\n}"},
		"one line":       {`{"a":1e400,"mcpServers":{"x":{}}}`, `{"a":1e400,"mcpServers":{"x":{}, "sandbox": {"command":"sandbox","args":["serve"]}}}`},
		"one line empty": {`{"a": 1, "mcpServers": {}}`, `{"a": 1, "mcpServers": {"sandbox": {"command":"sandbox","args":["serve"]}}}`},
		"tabs, CRLF": {"{\r\n\t\"mcpServers\": {\r\n\t\t\"x\": 1\r\n\t}\r\n}\r\n",
			"{\r\n\t\"mcpServers\": {\r\n\t\t\"x\": 1,\r\n\t\t\"sandbox\": {\r\n\t\t\t\"command\": \"sandbox\",\r\n\t\t\t\"args\": [\r\n\t\t\t\t\"serve\"\r\n\t\t\t]\r\n\t\t}\r\n\t}\r\n}\r\n"},
		"no section": {"{\n    \"a\": 123456789012345678901234567890\n}\n",
			"{\n    \"a\": 123456789012345678901234567890,\n    \"mcpServers\": {\n        \"sandbox\": {\n            \"command\": \"sandbox\",\n            \"args\": [\n                \"serve\"\n            ]\n        }\n    }\n}\n"},
		"comments": {"{ // top\n  \"mcpServers\": { /* none yet */ }, // here\n}\n",
			"{ // top\n  \"mcpServers\": { /* none yet */\n    \"sandbox\": {\n      \"command\": \"sandbox\",\n      \"args\": [\n        \"serve\"\n      ]\n    }\n   }, // here\n}\n"},
		"trailing comma": {"{\n  \"mcpServers\": {\n    \"x\": 1, // why\n  },\n}\n",
			"{\n  \"mcpServers\": {\n    \"x\": 1, // why\n    \"sandbox\": {\n      \"command\": \"sandbox\",\n      \"args\": [\n        \"serve\"\n      ]\n    },\n  },\n}\n"},
		"comment behind the last": {"{\n  \"mcpServers\": {\n    \"x\": 1 // why\n  }\n}\n",
			"{\n  \"mcpServers\": {\n    \"x\": 1, // why\n    \"sandbox\": {\n      \"command\": \"sandbox\",\n      \"args\": [\n        \"serve\"\n      ]\n    }\n  }\n}\n"},
		"replaced": {"{\n  \"mcpServers\": {\n    \"sandbox\": {\"old\": true}, \"y\": 2}}",
			"{\n  \"mcpServers\": {\n    \"sandbox\": {\n      \"command\": \"sandbox\",\n      \"args\": [\n        \"serve\"\n      ]\n    }, \"y\": 2}}"},
		"an escaped key": {`{"mcp\u0053ervers":{"s\u0061ndbox":1}}`, `{"mcp\u0053ervers":{"s\u0061ndbox":{"command":"sandbox","args":["serve"]}}}`},
		"a mark before":  {"\ufeff{\"mcpServers\":{}}", "\ufeff{\"mcpServers\":{\"sandbox\": {\"command\":\"sandbox\",\"args\":[\"serve\"]}}}"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := jsoncSet([]byte(c.in), withComments, []byte(server), "mcpServers", "sandbox")
			if err != nil {
				t.Fatal(err)
			}
			if string(out) != c.want {
				t.Errorf("got\n%s\nwant\n%s", out, c.want)
			}
			again, err := jsoncSet(out, withComments, []byte(server), "mcpServers", "sandbox")
			if err != nil || !bytes.Equal(again, out) {
				t.Errorf("a second time (%v):\n%s", err, again)
			}
		})
	}
}

func TestRemove(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"the only one":     {"{\n  \"s\": {\n    \"x\": 1\n  }\n}", "{\n  \"s\": {}\n}"},
		"the first":        {"{\n  \"s\": {\n    \"x\": 1,\n    \"y\": 2\n  }\n}", "{\n  \"s\": {\n    \"y\": 2\n  }\n}"},
		"the last":         {"{\n  \"s\": {\n    \"y\": 2,\n    \"x\": 1\n  }\n}", "{\n  \"s\": {\n    \"y\": 2\n  }\n}"},
		"a comma more":     {"{\"s\": {\"y\": 2, \"x\": 1,},}", "{\"s\": {\"y\": 2,},}"},
		"a comment before": {"{\"s\": {\n  \"y\": 2, // two\n  \"x\": 1}}", "{\"s\": {\n  \"y\": 2 // two\n  }}"},
		"comments about":   {"{\"s\": {\n  // mine\n  \"x\": 1, // one\n  \"y\": 2}}", "{\"s\": {\n  // mine\n   // one\n  \"y\": 2}}"},
		"not there":        {"{\"s\": {\"y\": 2}}", "{\"s\": {\"y\": 2}}"},
		"no section":       {"{ }", "{ }"},
		"nothing":          {" ", " "},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := jsoncRemove([]byte(c.in), withComments, "s", "x")
			if err != nil || string(out) != c.want {
				t.Errorf("error %v, got\n%s\nwant\n%s", err, out, c.want)
			}
		})
	}
}

func TestInvalidDocuments(t *testing.T) {
	for in, want := range map[string]string{
		"{\n  \"a\": 1\n  \"b\": 2\n}": "3:3: invalid character '\"' after object value (expecting ',' or '}')",
		"{\n  \"a\": tru\n}":           "2:8: invalid literal: tru",
		"{\"a\": 01}":                  "1:7: invalid literal: 01",
		"{\"a\": \"x\ny\"}":            "1:7: invalid literal: \"x",
		"{\"a\": \"\\q\"}":             "1:7: invalid literal: \"\\q\"",
		"{\"a\": 1":                    "1:8: parsing object after value: unexpected EOF",
		"{\"a\"":                       "1:5: parsing object after name: unexpected EOF",
		"{\"a\": \"":                   "1:8: parsing string: unexpected EOF",
		"{} x":                         "1:4: invalid character 'x' after",
		"[1]":                          "1:1: the document is not an object",
		"{\"s\": [1]}":                 "1:7: \"s\" is not an object",
		"{\"s\": {}, \"s\": {}}":       "1:11: \"s\" is there twice",
		"{a: 1}":                       "1:2: invalid literal: a",
		"{,}":                          "1:2: invalid character ','",
		"{\"a\": 1,, }":                "1:9: invalid character ','",
		"{\"a\": [1,,2]}":              "1:10: invalid character ','",
		"{\"a\": 1} /* x":              "1:10: parsing comment: unexpected EOF",
		strings.Repeat("[", 2000):      "1:1001: nested deeper than 1000",
		"{\"s\": " + strings.Repeat("{\"a\":", 1200): "nested deeper",
	} {
		_, err := jsoncSet([]byte(in), withComments, []byte("1"), "s", "x")
		var syntax *jsoncSyntaxError
		if !errors.As(err, &syntax) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: error %v, want %s", in, err, want)
		}
	}
	for in, want := range map[string]string{
		"{} // c": "1:4: a comment, which", "{\"a\": 1,}": "1:9: a comma at the end", "{\"a\": [1,]}": "1:10: a comma at the end",
	} {
		if _, err := jsoncSet([]byte(in), jsoncDialect{}, []byte("1"), "s"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", in, err, want)
		}
	}
}

// gap is white space, perhaps with comments.
func gap(t *rapid.T, comments bool) string {
	choices := []string{"", "", " ", "\n", "\n  ", "\r\n\t"}
	if comments {
		choices = append(choices, " /* c, } */ ", " // \"x\": {\n", "\n  // d\n  ", "/**/")
	}
	return rapid.SampledFrom(choices).Draw(t, "gap")
}

func document(t *rapid.T, depth int, comments bool) string {
	kinds := 7
	if depth <= 0 {
		kinds = 5
	}
	comma := func(last bool) string {
		if !last {
			return gap(t, comments) + ","
		}
		if comments && rapid.Bool().Draw(t, "trailing") {
			return gap(t, comments) + ","
		}
		return ""
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"0", "-1.5e+300", "123456789012345678901234567890", "1E9"}).Draw(t, "number")
	case 1:
		return rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "word")
	case 2, 3, 4:
		return rapid.SampledFrom([]string{`""`, `"// no comment"`, `"\"}\\"`, `"\u00e9\ud83d\ude00"`, `"ü"`, "\"\xff\""}).Draw(t, "text")
	case 5:
		out := "["
		n := rapid.IntRange(0, 3).Draw(t, "items")
		for i := range n {
			out += gap(t, comments) + document(t, depth-1, comments) + comma(i == n-1)
		}
		return out + gap(t, comments) + "]"
	}
	return object(t, depth, comments, nil)
}

// object has random members and those given.
func object(t *rapid.T, depth int, comments bool, given map[string]string) string {
	var members []string
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b b", "//", "ü", "mcpserver"}), 0, 4, rapid.ID[string]).Draw(t, "keys") {
		members = append(members, string(quote(key))+gap(t, comments)+":"+gap(t, comments)+document(t, depth-1, comments))
	}
	for key, value := range given {
		members = append(members, string(quote(key))+":"+gap(t, comments)+value)
	}
	members = rapid.Permutation(members).Draw(t, "order")
	out := "{"
	for i, m := range members {
		out += gap(t, comments) + m
		if i < len(members)-1 || comments && rapid.Bool().Draw(t, "trailing") {
			out += gap(t, comments) + ","
		}
	}
	if len(members) == 0 {
		return "{}"
	}
	return out + gap(t, comments) + "}"
}

// TestEverythingElseStays: what Set adds, Remove takes away, and then the
// document is byte for byte what it was. So neither touched anything else.
func TestEverythingElseStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := jsoncDialect{Comments: rapid.Bool().Draw(t, "comments")}
		src := gap(t, d.Comments) + object(t, 3, d.Comments, map[string]string{"servers": object(t, 2, d.Comments, nil)}) + gap(t, d.Comments)
		set, err := jsoncSet([]byte(src), d, []byte(server), "servers", "sandbox")
		if err != nil {
			t.Fatalf("%v in\n%s", err, src)
		}
		if again, err := jsoncSet(set, d, []byte(server), "servers", "sandbox"); err != nil || !bytes.Equal(again, set) {
			t.Fatalf("not idempotent: %v\n%s\nbecame\n%s", err, set, again)
		}
		other, err := jsoncSet(set, d, []byte(`[1, {"other": null}]`), "servers", "sandbox")
		if err != nil {
			t.Fatalf("%v in\n%s", err, set)
		}
		for _, with := range [][]byte{set, other} {
			back, err := jsoncRemove(with, d, "servers", "sandbox")
			if err != nil || string(back) != src {
				t.Fatalf("%v\n%q\nbecame\n%q\nand then\n%q", err, src, with, back)
			}
		}
		if !d.Comments {
			sameButOne(t, src, set)
		}
	})
}

// TestItemsComeAndGo: what Append adds, RemoveItem takes away, and then the document is
// byte for byte what it was.
func TestItemsComeAndGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := jsoncDialect{Comments: rapid.Bool().Draw(t, "comments")}
		list := "["
		n := rapid.IntRange(1, 3).Draw(t, "elements")
		for i := range n {
			list += gap(t, d.Comments) + document(t, 1, d.Comments)
			if i < n-1 || d.Comments && rapid.Bool().Draw(t, "trailing") {
				list += gap(t, d.Comments) + ","
			}
		}
		list += gap(t, d.Comments) + "]"
		src := object(t, 2, d.Comments, map[string]string{"hooks": `{"Pre": ` + list + "}"})
		with, err := jsoncAppend([]byte(src), d, []byte(server), "hooks", "Pre")
		if err != nil {
			t.Fatalf("%v in\n%s", err, src)
		}
		items, err := jsoncItems(with, d, "hooks", "Pre")
		if err != nil || len(items) != n+1 || !same(items[n], []byte(server)) {
			t.Fatalf("%v: %q became %q", err, src, with)
		}
		back, err := jsoncRemoveItem(with, d, n, "hooks", "Pre")
		if err != nil || string(back) != src {
			t.Fatalf("%v\n%q\nbecame\n%q\nand then\n%q", err, src, with, back)
		}
		gone := rapid.IntRange(0, n-1).Draw(t, "gone")
		left, err := jsoncRemoveItem([]byte(src), d, gone, "hooks", "Pre")
		if err != nil {
			t.Fatalf("%v: element %d of %q", err, gone, src)
		}
		if items, err := jsoncItems(left, d, "hooks", "Pre"); err != nil || len(items) != n-1 {
			t.Fatalf("%v: %q became %q", err, src, left)
		}
	})
}

func TestAppendMakesTheArray(t *testing.T) {
	for in, want := range map[string]string{
		"{\n  \"a\": 1\n}\n":                   "{\n  \"a\": 1,\n  \"hooks\": {\n    \"Pre\": [\n      1\n    ]\n  }\n}\n",
		"{\"hooks\": {\"Pre\": []}}":           "{\"hooks\": {\"Pre\": [1]}}",
		"{\"hooks\": {\"Pre\": [{\"a\": 2}]}}": "{\"hooks\": {\"Pre\": [{\"a\": 2}, 1]}}",
	} {
		out, err := jsoncAppend([]byte(in), jsoncDialect{}, []byte("1"), "hooks", "Pre")
		if err != nil || string(out) != want {
			t.Errorf("%q became %q: %v", in, out, err)
		}
	}
	for _, in := range []string{`{"hooks": {"Pre": {}}}`, `{"hooks": []}`, `{"hooks": {"Pre": [1}}`} {
		var syntax *jsoncSyntaxError
		if out, err := jsoncAppend([]byte(in), jsoncDialect{}, []byte("1"), "hooks", "Pre"); !errors.As(err, &syntax) {
			t.Errorf("%q became %q: %v", in, out, err)
		}
	}
	if _, err := jsoncRemoveItem([]byte(`{"hooks": [1]}`), jsoncDialect{}, 1, "hooks"); err == nil {
		t.Error("an element that is not there is removed")
	}
}

// sameButOne compares with the standard library's eyes.
func sameButOne(t *rapid.T, before string, after []byte) {
	decode := func(s []byte) map[string]any {
		dec := json.NewDecoder(bytes.NewReader(s))
		dec.UseNumber()
		var v map[string]any
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%v in %s", err, s)
		}
		return v
	}
	a, b := decode([]byte(before)), decode([]byte(after))
	added := b["servers"].(map[string]any)["sandbox"]
	delete(b["servers"].(map[string]any), "sandbox")
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	z, _ := json.Marshal(added)
	if !bytes.Equal(x, y) || !same(z, []byte(server)) {
		t.Fatalf("%s\nbecame\n%s", before, after)
	}
}

// TestRemoveLeavesTheRest removes members that were there: what is left is
// valid, and all others mean what they did.
func TestRemoveLeavesTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		comments := rapid.Bool().Draw(t, "comments")
		d := jsoncDialect{Comments: comments}
		src := object(t, 3, comments, map[string]string{"sandbox": document(t, 2, comments)})
		out, err := jsoncRemove([]byte(src), d, "sandbox")
		if err != nil {
			t.Fatalf("%v in\n%s", err, src)
		}
		root, err := parse([]byte(src), d)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range root.members {
			have, err := jsoncGet(out, d, m.key)
			if err != nil {
				t.Fatalf("%v: %q became %q", err, src, out)
			}
			want, _ := jsoncGet([]byte(src), d, m.key)
			if m.key == "sandbox" {
				want = nil
			}
			if !bytes.Equal(have, want) {
				t.Fatalf("%q is %s, was %s: %q became %q", m.key, have, want, src, out)
			}
		}
		if comments && strings.Count(src, "//")+strings.Count(src, "/*") > 0 && len(root.members) > 1 {
			i, _ := index([]byte(src), root, "sandbox")
			m := root.members[i]
			rest := src[:m.start] + src[m.value.end:]
			if strings.Count(rest, "/* c") != strings.Count(string(out), "/* c") || strings.Count(rest, "// d") != strings.Count(string(out), "// d") {
				t.Fatalf("comments were lost: %q became %q", src, out)
			}
		}
	})
}

func FuzzEdit(f *testing.F) {
	for _, seed := range []string{
		"", "{}", `{"servers":{}}`, "{ // c\n \"servers\": {\"a\": 1,}, /* d */ }\n", "{\n\t\"servers\": {\n\t\t\"sandbox\": {},\n\t}\n}",
		"{\"servers\":{\"sandbox\":1,\"sandbox\":2}}", "[1,2", "\ufeff{}", "{\"a\":\"\\u12\"}", strings.Repeat("[", 50), "{\"servers\":{/*x*/}}", "{\"servers\":{\"a\":1//x\n}}",
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, src []byte, comments bool) {
		d := jsoncDialect{Comments: comments}
		before := bytes.Clone(src)
		set, err := jsoncSet(src, d, []byte(server), "servers", "sandbox")
		if !bytes.Equal(src, before) {
			t.Fatal("the source was changed")
		}
		var syntax *jsoncSyntaxError
		if errors.As(err, &syntax) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if !comments && !json.Valid(bytes.TrimPrefix(set, []byte("\ufeff"))) {
			t.Fatalf("%q is not valid", set)
		}
		back, err := jsoncRemove(set, d, "servers", "sandbox")
		if err != nil {
			t.Fatal(err)
		}
		if again, err := jsoncSet(back, d, []byte(server), "servers", "sandbox"); err != nil {
			t.Fatalf("%v: %q", err, again)
		}
		if _, err := jsoncRemove(src, d, "servers"); err != nil && !errors.As(err, &syntax) {
			t.Fatal(err)
		}
	})
}

// TestCommentsAsEditorsWriteThem: a comment may hold any bytes, and a line comment
// may end with the file.
func TestCommentsAsEditorsWriteThem(t *testing.T) {
	for _, in := range []string{"{\"a\": 1} // end", "{\"a\": 1 // \xe9t\xe9\n}", "{\"a\": 1 // x\u2028y\n}", "{\"a\": 1 /* \xff */}"} {
		out, err := jsoncSet([]byte(in), withComments, []byte("2"), "a")
		if want := strings.Replace(in, "1", "2", 1); err != nil || string(out) != want {
			t.Errorf("%q became %q: %v", in, out, err)
		}
	}
}
