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
package approval
