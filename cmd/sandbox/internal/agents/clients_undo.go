package agents

// undoCommand is a command of the client's own that undoes: a file with instructions for
// the model.
type undoCommand struct {
	file func(Places, Scope) (string, error)
	text string
}

// undoPart is that file.
func (c Client) undoPart(p Places, s Scope, w Want) (Part, error) {
	file, err := c.undo.file(p, s)
	return ownFile("the command sandbox-undo", file, c.undo.text, w.Force), err
}

const (
	undoDescription = "Undo what a shell command changed in this folder: the newest step, or the one with this number"

	// undoWhat is what the model is told. The hook lets these commands, alone in a
	// line, through to the program outside of the sandbox.
	undoWhat = `, alone in its command line, and report what it prints.

- To see the steps first, run ` + "`sandbox history`" + `; ` + "`sandbox show STEP`" + ` and ` + "`sandbox diff STEP`" + ` say what one changed.
- ` + "`sandbox undo --dry-run`" + ` only says what would happen. ` + "`sandbox redo`" + ` takes an undo back.
- Exit status 3 means that somebody else has edited a file since. Show the user what the command says, and do not force it.
`
	markdownMark = "\n<!-- " + marker + " -->\n"

	claudeUndo = "---\ndescription: " + undoDescription + "\nargument-hint: \"[step]\"\n" +
		"allowed-tools: Bash(sandbox undo:*), Bash(sandbox redo:*), Bash(sandbox history:*), Bash(sandbox show:*), Bash(sandbox diff:*)\n---\n\n" +
		"Run `sandbox undo $ARGUMENTS` with the Bash tool" + undoWhat + markdownMark

	markdownUndo = "---\ndescription: " + undoDescription + "\n---\n\n" +
		"Run `sandbox undo` with your shell tool, with the step's number if the user gives one" + undoWhat + markdownMark

	plainUndo = undoDescription + ".\n\n" +
		"Run `sandbox undo` with your shell tool, with the step's number if the user gives one" + undoWhat + markdownMark

	skillUndo = "---\nname: sandbox-undo\ndescription: " + undoDescription +
		". Use it when the user asks to undo, revert or take back what a command did.\n---\n\n" +
		"Run `sandbox undo` with your shell tool, with the step's number if the user gives one" + undoWhat + markdownMark

	geminiUndo = "# " + marker + "\ndescription = \"" + undoDescription + "\"\nprompt = '''\n" +
		"Run `sandbox undo {{args}}` with your shell tool" + undoWhat + "'''\n"
)
