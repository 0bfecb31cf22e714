package ui

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Of a hostile file a browser gets a picture, or nothing.
func TestPictures(t *testing.T) {
	f := newFake()
	x := newLab(t, f)
	at := "/api/folders/" + folderID("/work") + "/steps/1/content?path=a&side="
	if a := x.get(at + "before"); a.status != http.StatusNotFound {
		t.Errorf("nothing there: %d %s", a.status, a.body)
	}
	for text, kind := range map[string]string{
		"\x89PNG\r\n\x1a\n<script>": "image/png", "GIF89a<script>": "image/gif", "\xff\xd8\xffx": "image/jpeg",
		"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>": "", "<html><script>": "", "": "", "%PDF-1.7": "", "plain": "",
		"\x89PNG\r\n\x1a\n" + strings.Repeat("x", maxPicture): "",
	} {
		f.content = func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
		a := x.get(at + "after")
		if kind == "" && (a.status != http.StatusUnsupportedMediaType || a.header.Get("Content-Type") != "application/json") {
			t.Errorf("%.20q: %d %.100s", text, a.status, a.body)
		}
		if kind != "" && (a.status != 200 || a.header.Get("Content-Type") != kind || !strings.Contains(a.header.Get("Content-Security-Policy"), "sandbox") || a.body != text) {
			t.Errorf("%.20q: %d %v", text, a.status, a.header)
		}
	}
	for _, wrong := range []string{"", "both"} {
		if a := x.get(at + wrong); a.status != http.StatusBadRequest {
			t.Errorf("%q: %d", wrong, a.status)
		}
	}
}
