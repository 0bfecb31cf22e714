// Package approval is the policy of what a session may read, write, execute and connect
// to: rules, who keeps them, and which one decides.
//
// A [Rule] says allow, deny or ask of one operation on one subject: a pattern of absolute
// paths, or a destination as the network's policy spells it. It stands in one of four
// scopes. The organisation's, the user's and the project's are files; the session's end
// with it. All of them lie where no command of a sandbox can write: the project's file is
// in the state directory, under the folder's hash, and not in the folder.
//
// Which rule decides ([Decide]) is a pure function of the rules, the question and the time:
//
//  1. A rule whose time is over does not count.
//  2. If the organisation's rules alone deny, it is denied, whatever the others say.
//  3. Of all the rules that match, those go out whose subject covers another one's and is
//     not covered by it: the more specific wins. Two subjects of which neither covers the
//     other are equals.
//  4. Among equals deny wins, then ask, then allow.
//
// No rule means no answer, and the caller's default holds. A [Book] is what a program asks:
// it reads the files again when they have changed, and it is safe for concurrent use. A
// file that cannot be trusted (see [File]) never widens anything: what would be allowed is
// asked, and if it is the organisation's file, denied. A project's file that is not what was
// accepted last is as if it were not there, until a person accepts it ([File.Accept]).
//
// # Questions
//
// This part keeps the questions of a session: which directory holds its
// mutations until somebody decides, who decided, and when nobody did. The first
// decision wins; at the deadline the answer is no, and at once where nobody can answer. Every decision goes to the
// audit log. If this actor crashes, what it was asked is denied.
//
// # The log of decisions
//
// This part is the actor that keeps the decisions log: one JSON line for
// each question that was decided, by a person or because nobody did, and for each
// destination that a rule of the network allowed or denied, the first time in a
// session. Before a session's first decision stands a line that says under what it
// decided.
//
// The log is chained (package approval): nobody rewrites it, and who did is found. It lies
// beside the first folder's undo log. A line that cannot be written is logged and lost;
// no decision waits for it.
//
// # Its file
//
// This part is a file of JSON lines to which lines are only appended, and in which
// a line that was changed, moved or cut away is found.
//
// Format:
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
// What it proves, and what it does not:
//
// There is no key. Who may write both files can write another history of any length. Who
// keeps a hash elsewhere (the one that a verification prints) can prove later that
// nothing before it was changed: [ChainReport.Contains].
//
// Trust:
//
// The content of the files is hostile. A line is at most [MaxChainLine] bytes long; what is
// longer is read in pieces, and is a [ChainProblem]. Neither file is followed if it is a
// symbolic link out of its directory, nor opened if it is not a regular file.
package approval
