package config

// builtin are the profiles that are always there, as their files would be.
func builtin() map[string]string {
	return map[string]string{
		"claude-code": `description = "Claude Code"
write = ["~/.claude/", "~/.claude.json"]
hosts = ["api.anthropic.com:443", "claude.ai:443", "platform.claude.com:443"]
env = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"]
credentials = ["~/.claude/.credentials.json"]
`,
		"codex": `description = "Codex"
write = ["~/.codex/"]
hosts = ["api.openai.com:443", "auth.openai.com:443", "chatgpt.com:443"]
env = ["OPENAI_API_KEY", "CODEX_API_KEY"]
credentials = ["~/.codex/auth.json"]
`,
		"gemini-cli": `description = "Gemini CLI"
write = ["~/.gemini/"]
hosts = ["generativelanguage.googleapis.com:443", "cloudcode-pa.googleapis.com:443", "oauth2.googleapis.com:443", "accounts.google.com:443"]
env = ["GEMINI_API_KEY", "GOOGLE_API_KEY"]
credentials = ["~/.gemini/oauth_creds.json"]
`,
		"opencode": `description = "opencode"
write = ["~/.config/opencode/", "~/.local/share/opencode/", "~/.local/state/opencode/"]
hosts = ["opencode.ai:443", "models.dev:443", "api.anthropic.com:443", "api.openai.com:443"]
env = ["OPENCODE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"]
credentials = ["~/.local/share/opencode/auth.json"]
`,
		"aider": `description = "aider"
write = ["~/.aider/"]
hosts = ["api.openai.com:443", "api.anthropic.com:443", "openrouter.ai:443"]
env = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"]
credentials = ["~/.aider/oauth-keys.env"]
`,
		"goose": `description = "goose"
write = ["~/.config/goose/", "~/.local/share/goose/", "~/.local/state/goose/"]
hosts = ["api.openai.com:443", "api.anthropic.com:443", "openrouter.ai:443"]
env = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"]
credentials = ["~/.config/goose/secrets.yaml"]
`,
	}
}
