package control

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Invalidate makes the guest forget what its kernel caches of the shares, and
// Sync write back what is dirty. Both return when the guest says that it is
// done. The error wraps ErrClosed or is the context's, or the guest's own.
func (h *Host) Invalidate(ctx context.Context) error {
	return h.request(ctx, &Message{Type: TypeInvalidate}).err
}

// Sync is described at Invalidate.
func (h *Host) Sync(ctx context.Context) error {
	return h.request(ctx, &Message{Type: TypeSync}).err
}

// Dial has the guest connect to a TCP port of its own loopback, and returns what it says
// is the connection: any descriptor at all. The error wraps ErrClosed, is the
// context's, or the guest's own. It takes a channel that passes descriptors; [Host.Connect]
// is for the others.
func (h *Host) Dial(ctx context.Context, port uint16) (*os.File, error) {
	if !h.link.PassesFDs() {
		return nil, errors.ErrUnsupported
	}
	a := h.request(ctx, &Message{Type: TypeDial, Port: port})
	if a.err == nil && a.file == nil {
		a.err = fmt.Errorf("%w: no descriptor with the answer to dial", ErrSequence)
	}
	return a.file, a.err
}

// Wake has the guest touch files below a directory, so that who watches them inside hears of
// it: their modification times are set to mtime, nanoseconds since 1970, by which their bridge knows
// that nothing is to be set. The error wraps ErrClosed, is the context's, or the guest's own; one file
// that cannot be touched is none.
func (h *Host) Wake(ctx context.Context, dir string, mtime int64, paths []string) error {
	return h.request(ctx, &Message{Type: TypeWake, Cwd: Text(dir), TimeNS: mtime, Argv: texts(paths)}).err
}

// request is one whose answer is awaited.
type request struct {
	file   bool        // the answer may bring a descriptor
	answer chan answer // room for one
}

type answer struct {
	file *os.File
	err  error
}

func (h *Host) request(ctx context.Context, m *Message) answer {
	r := &request{file: m.Type == TypeDial, answer: make(chan answer, 1)}
	h.mu.Lock()
	h.next++
	m.Request = h.next
	h.requests[m.Request] = r
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.requests, m.Request)
		h.mu.Unlock()
		select {
		case late := <-r.answer: // nobody takes it any more
			_ = late.file.Close() // of a nil file is an error only
		default:
		}
	}()
	if err := h.send(m); err != nil {
		return answer{err: err}
	}
	select {
	case a := <-r.answer:
		return a
	case <-h.done:
		return answer{err: h.Err()}
	case <-ctx.Done():
		return answer{err: ctx.Err()}
	}
}

// answer ends a request, unless its caller has given up.
func (h *Host) answer(m *Message, file *os.File) {
	var err error
	if m.Error != "" {
		err = fmt.Errorf("control: the guest reports: %.500q", m.Error)
	}
	h.mu.Lock()
	defer h.mu.Unlock() // whoever gives up looks for the answer afterwards
	r := h.requests[m.Request]
	if r == nil || err != nil && file != nil {
		_ = file.Close() // of a nil file is an error only
		file = nil
	}
	if r != nil {
		r.answer <- answer{file, err} // State lets one pass
	}
}
