package stdio

import (
	"context"

	"github.com/codeagent/sandbox/actors/api"
)

func (c *SafeguardConfigure) check(prefix string) error {
	if c.DeleteThreshold != nil && *c.DeleteThreshold < 0 {
		return fieldError(InvalidField, prefix+"delete_threshold", "must not be negative; 0 switches it off")
	}
	if c.OverwriteThresholdBytes != nil && *c.OverwriteThresholdBytes < 0 {
		return fieldError(InvalidField, prefix+"overwrite_threshold_bytes", "must not be negative; 0 switches it off")
	}
	if c.TimeoutSeconds != nil {
		if *c.TimeoutSeconds == 0 {
			return fieldError(InvalidField, prefix+"timeout_seconds", "must be positive")
		}
		return checkSeconds(prefix+"timeout_seconds", *c.TimeoutSeconds)
	}
	return nil
}

// Apply sets what c names.
func (c *SafeguardConfigure) Apply(to *api.Safeguards) {
	if c.DeleteThreshold != nil {
		to.DeleteThreshold = *c.DeleteThreshold
	}
	if c.OverwriteThresholdBytes != nil {
		to.OverwriteBytes = *c.OverwriteThresholdBytes
	}
	if c.RenameOver != nil {
		to.RenameOver = *c.RenameOver
	}
	if c.TimeoutSeconds != nil {
		to.Timeout = max(seconds(*c.TimeoutSeconds), 1)
	}
	if c.Exempt != nil {
		to.Exempt = *c.Exempt
	}
}

func configureSafeguards(ctx context.Context, sess *session, p *SafeguardConfigure) (SafeguardSettings, error) {
	if err := p.check(""); err != nil {
		return SafeguardSettings{}, err
	}
	s, err := sess.live.Safeguards(ctx)
	if err != nil {
		return SafeguardSettings{}, err
	}
	if *p != (SafeguardConfigure{}) {
		p.Apply(&s)
		if err := sess.live.ConfigureSafeguards(ctx, s); err != nil {
			return SafeguardSettings{}, err
		}
	}
	return SafeguardSettings{
		DeleteThreshold: s.DeleteThreshold, OverwriteThresholdBytes: s.OverwriteBytes, RenameOver: s.RenameOver,
		TimeoutSeconds: s.Timeout.Seconds(), Exempt: api.OrEmpty(s.Exempt),
	}, nil
}

func confirm(ctx context.Context, sess *session, p *ConfirmRequest) (api.None, error) {
	return api.None{}, sess.decide(ctx, "safeguard_id", p.SafeguardID, p.Action)
}

func decide(ctx context.Context, sess *session, p *DecideRequest) (api.None, error) {
	return api.None{}, sess.decide(ctx, "approval_id", p.ApprovalID, p.Action)
}

func (sess *session) decide(ctx context.Context, field, id, action string) error {
	switch {
	case id == "":
		return fieldError(InvalidField, field, "is empty")
	case action != "allow" && action != "deny":
		return fieldError(InvalidField, "action", "must be allow or deny")
	}
	return sess.live.Decide(ctx, api.DecideRequest{ID: id, Allow: action == "allow", By: decider})
}
