package control

import (
	"context"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/messages"
)

type serviceName struct {
	Name string `json:"name"`
}

// startService starts a service for a client, when commands can run. It does not end
// with the connection.
func (s *SessionServer) startService(ctx context.Context, r api.ServiceRequest) (api.ServiceStatus, error) {
	select {
	case <-s.Started:
		return s.Session.StartService(ctx, r)
	case <-s.Stopped:
		return api.ServiceStatus{}, messages.ErrEnding
	case <-ctx.Done():
		return api.ServiceStatus{}, context.Cause(ctx)
	}
}

// StartService implements [api.Services].
func (c *SessionClient) StartService(ctx context.Context, r api.ServiceRequest) (api.ServiceStatus, error) {
	return remoteCall[api.ServiceStatus](ctx, c, "service_start", r)
}

// Services implements [api.Services].
func (c *SessionClient) Services(ctx context.Context) ([]api.ServiceStatus, error) {
	return remoteCall[[]api.ServiceStatus](ctx, c, "service_list", none{})
}

// ServiceOutput implements [api.Services].
func (c *SessionClient) ServiceOutput(ctx context.Context, r api.ServiceOutputRequest) (api.ServiceOutput, error) {
	return remoteCall[api.ServiceOutput](ctx, c, "service_output", r)
}

// StopService implements [api.Services].
func (c *SessionClient) StopService(ctx context.Context, name string) (api.ServiceStatus, error) {
	return remoteCall[api.ServiceStatus](ctx, c, "service_stop", serviceName{name})
}

// Processes implements [api.Services].
func (c *SessionClient) Processes(ctx context.Context) ([]api.Running, error) {
	return remoteCall[[]api.Running](ctx, c, "processes", none{})
}

// Kill implements [api.Services].
func (c *SessionClient) Kill(ctx context.Context) (int, error) {
	return remoteCall[int](ctx, c, "kill", none{})
}
