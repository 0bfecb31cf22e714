// Package regular reads files that somebody else may have made, and may exchange
// meanwhile: a configuration in a project, a file of git's, an agent's settings. What is
// read is a regular file and not too large, and nobody is waited for, as a named pipe
// would have it. A file whose text decides something ([Trusted]) also belongs to this user
// or to root, and nobody else can write to it or exchange it.
package regular
