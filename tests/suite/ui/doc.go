// Package ui drives the page of "sandbox ui" in a real Chromium, against the real
// program and real sessions: every page and every action, what hostile names and
// outputs do to it (nothing), and what axe-core finds in it.
//
// SANDBOX_UI_SHOTS names a directory for pictures of all pages, in both themes and
// two widths.
package ui
