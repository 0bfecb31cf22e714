package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestAddress: which sandbox and port a request is for.
func TestAddress(t *testing.T) {
	id := strings.Repeat("a1", IDLength/2)
	for _, c := range []struct {
		host, domain string
		ids, ports   []string
		want         Address
		fails        bool
	}{
		{host: "api.test", domain: "box.test"},
		{host: "3000-" + id + ".box.test", domain: "box.test", want: Address{id, 3000}},
		{host: "3000-" + strings.ToUpper(id) + ".Box.Test.:8443", domain: "box.test:443", want: Address{id, 3000}},
		{host: "3000-" + id + ".box.test.evil", domain: "box.test"},
		{host: "3000-" + id + ".box.test"},
		{host: "0-" + id + ".box.test", domain: "box.test"},
		{host: "+1-" + id + ".box.test", domain: "box.test"},
		{host: "65536-" + id + ".box.test", domain: "box.test"},
		{host: "80-" + id[1:] + ".box.test", domain: "box.test"},
		{host: "[::1]:80", domain: "box.test"},
		{host: "80-" + id + ".box.test", domain: "box.test", ids: []string{"other"}, want: Address{"other", EnvdPort}},
		{ids: []string{id}, ports: []string{"8080"}, want: Address{id, 8080}},
		{ids: []string{id}, ports: []string{"08"}, fails: true},
		{ids: []string{id}, ports: []string{""}, fails: true},
		{ids: []string{id}, ports: []string{"1", "1"}, fails: true},
		{ids: []string{id, id}, fails: true},
		{ids: []string{"../" + id}, fails: true},
		{ids: []string{""}, fails: true},
		{ids: []string{strings.Repeat("a", 65)}, fails: true},
		{ports: []string{"80"}},
	} {
		r := &http.Request{Host: c.host, Header: http.Header{SandboxHeader: c.ids, PortHeader: c.ports}}
		if got, err := AddressOf(r, c.domain); got != c.want || (err != nil) != c.fails {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
}

// thing is an item of a list.
type thing struct {
	id   string
	at   time.Time
	even bool
}

// things makes n of them, two of each time, in no order.
func things(n int) (all []thing) {
	for i := range n {
		k := (i*7 + 3) % n // all of 0 to n-1, for an n that 7 does not divide
		all = append(all, thing{fmt.Sprintf("id-%02d", k), time.Unix(0, int64(k/2)).In(time.FixedZone("", 3600)), k%2 == 0})
	}
	return all
}

func idOf(v thing) string { return v.id }

// pageOfThings asks for a page, and returns the ids on it and the next token.
func pageOfThings(t *testing.T, query string, all []thing) (ids []string, next string) {
	t.Helper()
	q, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	err = Page(w, q, slices.Clone(all), func(v thing) Position { return Position{v.at, v.id} }, func(v thing) (string, bool) {
		return v.id, v.even || q.Get("all") != ""
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &ids); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return ids, w.Header().Get("X-Next-Token")
}

// TestPages: who follows the tokens sees each item once, in order, also if those between which a page ended are gone by then.
func TestPages(t *testing.T) {
	all := things(9)
	sorted := slices.Sorted(func(yield func(string) bool) {
		for _, v := range all {
			if !yield(idOf(v)) {
				return
			}
		}
	})
	newest := slices.Clone(sorted)
	slices.Reverse(newest)
	for query, want := range map[string][]string{
		"all=1&limit=2": newest, "all=1&limit=3": newest, "all=1": newest, "all=1&limit=9": newest, "all=1&limit=4&order=asc": sorted, "limit=2&order=asc": {"id-00", "id-02", "id-04", "id-06", "id-08"},
	} {
		var got []string
		for next := ""; ; {
			ids, token := pageOfThings(t, query+"&nextToken="+next, all)
			got = append(got, ids...)
			if next = token; next == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q", query, got)
		}
	}
	first, next := pageOfThings(t, "all=1&limit=2", all)
	left := slices.DeleteFunc(slices.Clone(all), func(v thing) bool { return slices.Contains(first, v.id) })
	left = append(left, thing{id: "new", at: time.Unix(1, 0)})
	if got, _ := pageOfThings(t, "all=1&nextToken="+next, left); !slices.Equal(got, newest[2:]) {
		t.Errorf("after %q, which are gone: %q", first, got)
	}
	if got, next := pageOfThings(t, "", nil); got == nil || len(got) > 0 || next != "" {
		t.Errorf("of nothing: %q, %q", got, next)
	}
	for _, bad := range []string{"limit=0", "limit=x", "limit=101", "order=up", "nextToken=x", "nextToken=%2F", "nextToken=" + (Position{ID: ".."}).token()} {
		q, _ := url.ParseQuery(bad)
		err := Page(httptest.NewRecorder(), q, all, func(v thing) Position { return Position{v.at, v.id} }, func(v thing) (string, bool) { return v.id, true })
		if p, ok := err.(*Problem); !ok || p.Status != http.StatusBadRequest { //nolint:errorlint // nothing wraps it
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestFilter: which sandboxes a query means.
func TestFilter(t *testing.T) {
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	d := Detail{State: StatePaused, TemplateID: "base", StartedAt: at, Metadata: map[string]string{"a&": "x=y", "b": "2"}}
	for query, want := range map[string]bool{
		"": true, "state=paused": true, "state=running": false, "state=running,paused": true, "state=running&state=paused": true, "template=base": true, "template=x": false,
		"startedAfter=2026-11-01T00:00:00Z": true, "startedAfter=2026-11-01T00:00:01Z": false,
		"metadata=a%252526%3Dx%25253Dy": true, "metadata=" + url.QueryEscape(url.Values{url.QueryEscape("a&"): {url.QueryEscape("x=y")}, "b": {"2"}}.Encode()): true, "metadata=b%3D3": false, "metadata=c%3D": false,
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := FilterOf(q); err != nil || f.Takes(d) != want {
			t.Errorf("%s: %v, %v", query, f.Takes(d), err)
		}
	}
	for _, query := range []string{"state=", "state=ended", "state=running,", "startedAfter=today", "metadata=%25zz", "metadata=a%3D%2525zz"} {
		q, _ := url.ParseQuery(query)
		if _, err := FilterOf(q); err == nil {
			t.Errorf("%s is a filter", query)
		}
	}
}

// FuzzAddress: whatever a request says, it names a sandbox by a name and a port, or none; by the host's name only one of our domain.
func FuzzAddress(f *testing.F) {
	id := strings.Repeat("a", IDLength)
	f.Add("8080-"+id+".box.test", "", "")
	f.Add("box.test:1", id, "80")
	f.Add("[::1]:80", "..", "-1")
	f.Add("3000-"+id+".box.test.evil", "", "")
	f.Fuzz(func(t *testing.T, host, name, port string) {
		r := &http.Request{Host: host, Header: http.Header{}}
		if name != "" {
			r.Header.Set(SandboxHeader, name)
		}
		if port != "" {
			r.Header.Set(PortHeader, port)
		}
		a, err := AddressOf(r, "box.test")
		switch {
		case (a.ID == "") != (a.Port == 0), err != nil && a.ID != "", a.ID != "" && !ValidName(a.ID):
			t.Errorf("%+v, %v", a, err)
		case a.ID != "" && name == "" && (!IsID(a.ID) || !strings.HasPrefix(strings.ToLower(host), fmt.Sprintf("%d-%s.box.test", a.Port, a.ID))):
			t.Errorf("%q is taken for %+v", host, a)
		}
	})
}

// FuzzToken: a token is a position that it is written as again, or none.
func FuzzToken(f *testing.F) {
	f.Add(Position{time.Unix(1, 2), "a"}.token())
	f.Add("")
	f.Add("MjAyNi0xMS0wMVQwMDowMDowMFogLi4")
	f.Fuzz(func(t *testing.T, token string) {
		p, ok := positionOf(token)
		if !ok {
			return
		}
		if again, ok := positionOf(p.token()); !ok || p.compare(again) != 0 || !ValidName(p.ID) {
			t.Errorf("%q: %+v, then %+v", token, p, again)
		}
	})
}

// TestNewID: an id is a name of any object of a cluster, also of a Service, which begins with a letter (RFC 1035); all digits come.
func TestNewID(t *testing.T) {
	label := regexp.MustCompile(`^[a-z][a-z0-9]{19}$`)
	seen := map[byte]bool{}
	for range 2000 {
		id := NewID()
		if !label.MatchString(id) || !IsID(id) {
			t.Fatalf("%q", id)
		}
		seen[id[len(id)-1]] = true
	}
	if len(seen) != len(idDigits) {
		t.Errorf("%d digits", len(seen))
	}
	if !IsID("7" + NewID()[1:]) { // of an older version
		t.Error("one that begins with a digit is none any more")
	}
}
