package doctor

// elsewhere is what there is to say of a system other than Linux. No bridge and no
// runtime is there, and the undo log cannot even be opened.
func elsewhere(goos string) []Finding {
	return []Finding{{
		Name: "platform", State: "fail",
		Detail: "on " + goos + " commands cannot run yet, and undo logs cannot be opened: run, serve, history, show, diff, undo, redo, restore, status and gc fail",
		Advice: "use it on Linux, for instance in a virtual machine; here only config, completion, doctor, install, uninstall and version work",
	}}
}
