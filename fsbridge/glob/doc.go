// Package glob is the one syntax of patterns for paths: in searches, in
// safeguards and in the settings of the classifier.
//
//   - any text without a slash
//     **       any number of path elements
//     ?        one character that is no slash
//     [a-z]    one of these characters; [!a-z] and [^a-z] another one, no slash
//     {a,b}    one of these alternatives, which are patterns
//     \        the next character itself
//
// It is doublestar (github.com/bmatcuk/doublestar) with two additions: a negated
// class never matches a slash, and the alternatives of a pattern are limited, so
// that a match takes bounded time whoever wrote the pattern.
//
// The functions are pure and safe for concurrent use. A pattern that has not been
// checked may be matched; if it is malformed it matches nothing or little.
package glob
