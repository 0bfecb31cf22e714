// Package hypervisor declares what every isolation runtime offers: the Linux
// jail, Landlock alone, QEMU, and none at all implement [Runtime], and the machine actor
// drives it without knowing which one it has.
//
// A Runtime starts a [Guest]: an isolated place with the working folders in it,
// in which many commands can run one after another or side by side. The guest
// is hostile. Whatever it sends is checked by the runtime; what it claims about
// steps is never believed.
//
// A runtime from its start to its end:
//
//	g, err := r.Start(ctx, hypervisor.Config{SessionID: "s", Shares: shares, UID: -1, GID: -1})
//	p, err := g.Exec(ctx, hypervisor.Command{ID: 1, Argv: []string{"make", "test"}, Dir: dir})
//	status, err := p.Wait(ctx)
//	err = g.Stop(ctx)
package hypervisor
