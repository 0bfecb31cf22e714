package directory

import (
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge"
)

// Status describes the folder.
func (d *Directory) Status() api.DirectoryStatus {
	st := api.DirectoryStatus{
		Index: d.Index, Path: d.Config.Path, Label: d.Config.Label, Access: "read_write", UndoDir: d.Config.UndoDir, State: "ok", Bridge: d.bridgeStatus(),
	}
	switch {
	case d.Config.ReadOnly:
		st.Access, st.UndoDir = "read_only", ""
	case d.Mismatch != nil:
		st.State, st.Problem = "version_mismatch", d.Mismatch.Error()
	default:
		st.State, st.Problem = d.Hooks.State()
		st.Log = d.Log.Status()
	}
	return st
}

func (d *Directory) bridgeStatus() *api.BridgeStatus {
	b := d.theBridge()
	if b == nil {
		return nil
	}
	st := &api.BridgeStatus{Kind: "fuse", Protocol: "FUSE", Cache: "long", MountPoint: d.Share().GuestPath, InFlight: b.InFlight()}
	if k, ok := b.(fsbridge.Kinder); ok {
		st.Kind, st.Protocol = k.Kind()
	}
	if d.env.Config.Cache == api.CacheNone {
		st.Cache = "none"
	}
	if c, ok := b.(fsbridge.Counter); ok {
		st.Requests = c.Counts()
	}
	return st
}
