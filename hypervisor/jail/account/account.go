package account

// Anonymous is the uid and gid of commands when sandbox was started by root himself. No
// distribution gives this number to anybody.
const Anonymous = 61000
