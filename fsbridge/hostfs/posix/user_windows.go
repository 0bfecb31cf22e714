package posix

// Geteuid returns the user that the program acts as: the one that all files belong to, as Fstat has it. What the user may do, Windows's
// access lists say, and a call that they deny is EACCES.
func Geteuid() int { return 0 }
