// Package proctext reads what files of /proc say of a process. It opens nothing and trusts
// nothing: a text that is cut off or not what it should be says nothing.
package proctext
