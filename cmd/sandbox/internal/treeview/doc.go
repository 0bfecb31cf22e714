// Package treeview shows the live parts of a session: once, as a table ([Write]),
// or again and again on the whole terminal ([Watch]). It keeps nothing but what it
// shows, and asks the session twice a second.
package treeview
