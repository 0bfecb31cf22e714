package interceptor

import (
	"slices"
	"strings"
	"syscall"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/texts"
	"github.com/codeagent/sandbox/messages"
)

// renameExchange is RENAME_EXCHANGE, which replaces nothing.
const renameExchange = 2

// counts returns the kind of safeguard that op counts for, or "". What was
// made in this step counts for none. It allocates nothing.
func (h *Hooks) counts(op *fsbridge.Op, epoch uint64) string {
	s := h.safe.Load()
	if !s.armed {
		return ""
	}
	kind, lost := "", op.Node // what is lost counts if it was there before the step
	switch op.Kind {
	case fsbridge.OpUnlink, fsbridge.OpRmdir:
		if s.DeleteThreshold > 0 {
			kind = messages.KindDelete
		}
	case fsbridge.OpRename:
		if s.RenameOver && op.Flags&renameExchange == 0 && op.Victim != nil && op.Victim.Type != syscall.S_IFDIR {
			kind, lost = messages.KindRename, op.Victim
		}
	case fsbridge.OpWrite, fsbridge.OpTruncate, fsbridge.OpFallocate, fsbridge.OpCopyRange:
		if s.OverwriteBytes > 0 && !h.allowed(messages.KindOverwrite, epoch) && overwrites(op, epoch, s.OverwriteBytes) {
			kind = messages.KindOverwrite
		}
	}
	if kind == "" || h.allowed(kind, epoch) || h.created(lost, epoch) {
		return ""
	}
	return kind
}

func kindBit(kind string) uint64 {
	switch kind {
	case messages.KindDelete:
		return 1
	case messages.KindOverwrite:
		return 2
	}
	return 4
}

// allowed reports whether somebody allowed that kind in the epoch: one answer
// is good for a step.
func (h *Hooks) allowed(kind string, epoch uint64) bool {
	yes := h.yes.Load()
	return yes>>8 == epoch && yes&kindBit(kind) != 0
}

// allow is the actor's.
func (h *Hooks) allow(kind string) {
	epoch := h.guard.Epoch()
	bits := kindBit(kind)
	if old := h.yes.Load(); old>>8 == epoch {
		bits |= old & 0xff
	}
	h.yes.Store(epoch<<8 | bits)
}

// created tells whether the step made o.
func (h *Hooks) created(o *fsbridge.Object, epoch uint64) bool {
	return marked(o, epoch) || o != nil && h.o.Log.Created(epoch, o)
}

// marked tells whether the object is known to be made by the step. A bridge that forgot the
// inode and looked it up again has another object for it, without the mark.
func marked(o *fsbridge.Object, epoch uint64) bool {
	return o != nil && o.Protected(epoch)&fsbridge.ProtCreated != 0
}

// inlineBytes is what the log captures whole at the first touch; a file of that
// size may be captured without any of it being overwritten.
const inlineBytes = 64 << 10

// overwrites reports whether op destroys bytes of a file above the limit, in
// bytes, that was there before the step.
func overwrites(op *fsbridge.Op, epoch uint64, limit int64) bool {
	if op.Node == nil || marked(op.Node, epoch) || op.Standing || op.Ahead && op.Append {
		return false
	}
	whole := op.Node.Protected(epoch)&fsbridge.ProtContent != 0
	e := op.Node.Extents(epoch)
	size, ok := int64(0), false
	switch {
	case e != nil:
		size, ok = e.Size, true
	case whole && limit >= inlineBytes:
		return false
	case op.NodeStat.Ino != 0:
		size, ok = op.NodeStat.Size, true
	default:
		size, ok = statSize(op.Node)
	}
	if !ok || size <= limit {
		return false
	}
	if op.Kind == fsbridge.OpTruncate {
		return op.Size < size
	}
	return op.Off < size
}

// opPath is the path that op is about, relative to the working folder, for
// people and for patterns.
func opPath(op *fsbridge.Op) string {
	switch op.Kind {
	case fsbridge.OpRename:
		return join(op.NewDir, op.NewName)
	case fsbridge.OpWrite, fsbridge.OpTruncate, fsbridge.OpFallocate, fsbridge.OpCopyRange,
		fsbridge.OpSetattr, fsbridge.OpSetXattr, fsbridge.OpRemoveXattr:
		return objectPath(op.Node)
	}
	return join(op.Dir, op.Name)
}

func join(dir *fsbridge.Object, name string) string {
	if p := objectPath(dir); p != "" && p != "." {
		return p + "/" + name
	}
	return name
}

// objectPath follows bindings up to the root; a deep or renamed-about chain
// ends it early, which costs a person some context and nothing else.
func objectPath(o *fsbridge.Object) string {
	var parts []string
	for depth := 0; o != nil && o.Place != nil && depth < 256; depth++ {
		parent, name, ok := o.Place.Binding()
		if !ok {
			break
		}
		parts = append(parts, name)
		o = parent
	}
	slices.Reverse(parts)
	return strings.Join(parts, "/")
}

// exempt reports whether one of the patterns matches the path ([texts.MatchPath]).
func exempt(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return texts.MatchPath(p, name) })
}
