package jail

// AnonymousAccount is the uid and gid of commands when sandbox was started by root himself. No
// distribution gives this number to anybody.
const AnonymousAccount = 61000
