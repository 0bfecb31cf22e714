package actors

// SessionInfo names a running session.
type SessionInfo struct {
	Session     string   `json:"session"`
	PID         int      `json:"pid"`
	Socket      string   `json:"socket"`
	Directories []string `json:"directories"`
}

// Sessions lists the running sessions that are registered in runtimeDir.
func Sessions(runtimeDir string) []SessionInfo {
	var list []SessionInfo
	for _, r := range registrations(runtimeDir) {
		list = append(list, SessionInfo{Session: r.Session, PID: r.PID, Socket: r.Socket, Directories: r.Directories})
	}
	return list
}
