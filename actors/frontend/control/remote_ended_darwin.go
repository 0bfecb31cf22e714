package control

import "context"

// watch waits for nothing here: the session has hung up.
func watch(int) (wait func(ctx context.Context) error, release func()) {
	return func(context.Context) error { return nil }, func() {}
}
