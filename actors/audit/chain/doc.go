// Package chain is a file of JSON lines to which lines are only appended, and in which
// a line that was changed, moved or cut away is found.
//
// # Format
//
// Each line is a JSON object. Its last member is "prev": the SHA-256, in hexadecimal, of
// the bytes of the line before it without the line feed, or "" in the first line. So
// whoever changes a line changes what the next one must say, and so on to the last. What
// the last line must be stands in a second file, the head, beside the log:
//
//	decisions.jsonl   {"at":"...","decision":"deny",...,"prev":"9f86d0..."}
//	decisions.head    {"lines":17,"hash":"60303a..."}
//
// The head is replaced after each line. A writer that was killed between both leaves a
// head that is one line behind: lines after the head that continue the chain are right.
// Lines before the head that are not there were cut away.
//
// Lines without "prev" at the beginning are of a log that was begun by an older version,
// which did not chain. The first chained line pins the last of them, and with the head
// their number.
//
// # What it proves, and what it does not
//
// There is no key. Who may write both files can write another history of any length. Who
// keeps a hash elsewhere (the one that a verification prints) can prove later that
// nothing before it was changed: [Report.Contains].
//
// # Trust
//
// The content of the files is hostile. A line is at most [MaxLine] bytes long; what is
// longer is read in pieces, and is a [Problem]. Neither file is followed if it is a
// symbolic link out of its directory, nor opened if it is not a regular file.
package chain
