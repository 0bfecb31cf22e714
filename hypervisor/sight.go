package hypervisor

// Sight is what programs inside can do with a path of the host, and why.
type Sight struct {
	// Path is free of symlinks as far as it exists.
	Path string `json:"path"`
	// Read, Write and Exec tell what can be done; Undo, that writes can be undone.
	Read  bool `json:"read"`
	Write bool `json:"write"`
	Exec  bool `json:"exec"`
	Undo  bool `json:"undo"`
	// Asked tells that a person is asked first.
	Asked bool `json:"asked,omitempty"`
	// Why names the deciding rule, for people.
	Why string `json:"why"`
	// Remedy says what would change it; empty: nothing does, or nothing need be.
	Remedy string `json:"remedy,omitempty"`
}
