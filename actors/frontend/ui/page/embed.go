package page

import "embed"

// Files are index.html and what it loads, without folders.
//
//go:embed *.html *.js *.css *.svg
var Files embed.FS
