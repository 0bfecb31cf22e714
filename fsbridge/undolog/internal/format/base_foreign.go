package format

import "fmt"

// ForeignError: the log is another folder's. Nothing of it is touched.
type ForeignError struct {
	Dir    string // the undo directory
	Folder string // the working folder that it was asked for
	Owner  string // where the folder was that it belongs to; empty if that is not known
	Why    string // what does not fit
}

func (e *ForeignError) Error() string {
	whose := "that of another folder"
	switch e.Owner {
	case "":
	case e.Folder:
		whose = "that of another folder that was at " + e.Owner + " before: it was moved away, removed or replaced"
	default:
		whose = "that of " + e.Owner
	}
	return fmt.Sprintf("the history in %s does not belong to %s; it is %s (%s). Nothing is changed. "+
		"'sandbox history new' begins a new history here and keeps the other one aside, where its own folder finds it again, also after a move", e.Dir, e.Folder, whose, e.Why)
}

// Unwrap makes it an [ErrUndoDir].
func (e *ForeignError) Unwrap() error { return ErrUndoDir }
