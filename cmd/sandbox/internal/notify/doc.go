// Package notify tells a person on the desktop that something waits for a decision, once for all questions that come
// together, with the notify-send that is installed.
//
// What always holds: the session never waits for it; what a program inside has chosen reaches the desktop as plain text,
// without markup and escapes; and nothing is executed that a program inside could have put there.
package notify
