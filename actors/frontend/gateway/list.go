package gateway

import (
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/actors/frontend/gateway/kube"
)

// list answers with a tenant's sandboxes, page by page.
func (g *Gateway) list(q call) error {
	query := q.r.URL.Query()
	filter, err := wire.FilterOf(query)
	if err != nil {
		return err
	}
	store := g.store(q.namespace)
	ctx, cancel := kube.Within(q.ctx, g.o.Clock, syncTime)
	defer cancel()
	if err := store.Synced(ctx); err != nil {
		return g.cluster(err)
	}
	return wire.Page(q.w, query, store.List(), func(c kube.Claim) wire.Position { return wire.Position{At: c.Metadata.Created, ID: c.Metadata.Name} }, func(c kube.Claim) (wire.Detail, bool) {
		d := g.describe(c)
		return d, filter.Takes(d)
	})
}
