// Package ui serves the page of 'sandbox ui': sessions, histories, decisions and actors, in a
// browser on this machine.
//
// # What it shows
//
// The server asks all live sessions of this user over their control sockets, and opens the logs of
// folders without one for as long as a request takes ([Sources]). It keeps nothing but which
// pages are open. A page learns by server-sent events that something has changed, never what: it asks then. Without
// an open page the server asks nobody.
//
// # Who may ask
//
// The server listens on a loopback address. Any program and any web page of this machine can send it
// requests, so:
//
//   - Every request but those for the page's own files needs the server's token in its Authorization header. The token stands in the fragment of
//     the address which 'sandbox ui' prints; a browser sends fragments to nobody. The page keeps it in localStorage, which a page of another
//     port cannot read. There is no cookie: browsers send a cookie to each port of a host, so that another user's server would get it.
//   - The Host header must be the server's own address, so that a name that is made to
//     lead here (DNS rebinding) gets nothing. An Origin header must be the server's own, too.
//   - What changes something is a POST of JSON with a header that no form can set.
//   - The content security policy allows no inline scripts, no other origin, no frames.
//
// Whoever can read this user's terminal, or the memory of the user's processes, can use the page. Nothing
// here protects against that.
//
// # What is hostile
//
// Names, commands and diffs come from programs inside. They leave as JSON or as text/plain with
// nosniff, never as anything that a browser would run. The page writes them as text.
//
// # Bounds
//
// Requests are at most [maxRequest] bytes, answers are paged, diffs are streamed and cut. At most
// [maxPages] pages hear of events. [maxConnections] connections are served at once; the next
// [maxRefused] get 503, and more wait. At the end, requests that change something are waited for.
//
// A [Server] may be used concurrently. One mutex for each folder keeps the requests that change it in order, so that of two
// tabs that undo the same steps only one does; it is held while a session works. The hub's
// mutex is held for moments.
package ui
