// Package sight is what somebody saw of a directory when its last name was in place: an
// apply looks, and the stamps take it in without looking again.
//
// A sight says nothing of what happened afterwards. It counts only where nobody else
// could change the name in between without being noticed: that is Looked.
package sight
