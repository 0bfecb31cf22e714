package remote

import (
	"context"

	"github.com/codeagent/sandbox/guest/control"
)

// Wake is the [hypervisor.Transport]'s function of that name for a folder of a guest; host gives its
// channel, nil before there is one.
func Wake(host func() *control.Host, folder string) func(ctx context.Context, mtime int64, paths []string) error {
	return func(ctx context.Context, mtime int64, paths []string) error {
		h := host()
		if h == nil { // nothing runs inside yet
			return nil
		}
		return h.Wake(ctx, folder, mtime, paths)
	}
}
