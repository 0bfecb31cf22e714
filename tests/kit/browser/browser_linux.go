package browser

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// Start starts a browser until the test ends, and returns its first tab.
func Start(t testing.TB) context.Context {
	t.Helper()
	path := require.Program(t, "chromium", "chromium")
	home := t.TempDir()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(home),
		chromedp.Env("HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home), chromedp.WindowSize(1280, 800))
	options = append(options, chromedp.NoSandbox) // it does not start as root otherwise, nor in many containers
	ctx, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	tab, closeTab := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		_ = chromedp.Cancel(tab) // waits until it has ended, and so lets its directory be removed
		closeTab()
		cancel()
	})
	if err := chromedp.Do(tab, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
	return tab
}
