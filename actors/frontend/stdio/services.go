package stdio

import (
	"context"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
)

// ServiceStartRequest is the payload of service.start.
type ServiceStartRequest struct {
	Name      string            `json:"name" jsonschema:"letters, digits, '.', '_' and '-'; at most 64; that of a service that has ended can be used again"`
	Command   string            `json:"command,omitempty" jsonschema:"run by sh -c; either this or argv"`
	Argv      []string          `json:"argv,omitempty"`
	Directory string            `json:"directory,omitempty" jsonschema:"the working directory it starts in; default: the first"`
	CWD       string            `json:"cwd,omitempty" jsonschema:"relative to that; must lie in a working directory"`
	Env       map[string]string `json:"env,omitempty" jsonschema:"in addition to the environment"`
	Publish   []string          `json:"publish,omitempty" jsonschema:"ports that the host can connect to while it runs: [ADDR:]HOST:INSIDE, on an address of the loopback, by default 127.0.0.1; or INSIDE alone, in a session with network.strategy"`
}

// ServiceResult is one service.
type ServiceResult struct {
	Service api.ServiceStatus `json:"service"`
}

// ServiceOutputResult answers service.output.
type ServiceOutputResult struct {
	Service      api.ServiceStatus `json:"service"`
	Data         string            `json:"data" jsonschema:"stdout and stderr in one; text, or base64"`
	Encoding     string            `json:"encoding,omitempty" jsonschema:"base64 if the data is not UTF-8"`
	OmittedBytes int64             `json:"omitted_bytes" jsonschema:"written before"`
}

// startService starts a command that runs beside the steps. It goes on without its
// client, until the session ends.
func startService(ctx context.Context, sess *session, p *ServiceStartRequest) (ServiceResult, error) {
	argv, err := arguments(p.Command, p.Argv)
	if err != nil {
		return ServiceResult{}, err
	}
	c := command{argv: argv, directory: p.Directory, cwd: p.CWD, env: p.Env}
	r, err := c.request(sess)
	if err != nil {
		return ServiceResult{}, err
	}
	st, err := sess.live.StartService(ctx, api.ServiceRequest{Name: p.Name, Argv: r.Argv, Env: r.Env, Dir: r.Dir, Publish: p.Publish})
	return ServiceResult{st}, err
}

func serviceOutput(ctx context.Context, sess *session, p *api.ServiceOutputRequest) (ServiceOutputResult, error) {
	if p.Limit < 0 {
		return ServiceOutputResult{}, fieldError(InvalidField, "limit", "must not be negative")
	}
	o, err := sess.live.ServiceOutput(ctx, *p)
	if err != nil {
		return ServiceOutputResult{}, err
	}
	out := ServiceOutputResult{Service: o.Service, OmittedBytes: o.Omitted}
	out.Data, out.Encoding = text(frontend.Whole(frontend.Rest(o.Data)))
	return out, nil
}
