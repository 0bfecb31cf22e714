package actors

// Sessions lists the running sessions that are registered in runtimeDir.
func Sessions(runtimeDir string) []SessionInfo {
	var list []SessionInfo
	for _, r := range registrations(runtimeDir) {
		info := SessionInfo{Session: r.Session, PID: r.PID, Socket: r.Socket, Directories: r.Directories}
		if len(r.Labels) == len(r.Directories) {
			info.Labels = r.Labels
		}
		list = append(list, info)
	}
	return list
}
