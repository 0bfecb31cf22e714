package wine

import (
	"testing"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// New returns a machine that ends with the test. It ends the test where wine cannot be had.
func New(t testing.TB, o Options) *Machine {
	t.Helper()
	require.Root(t)
	bed, err := Open(t.Context())
	if err != nil {
		require.Missing(t, "wine ("+err.Error()+")", "apt-get install mmdebstrap, and Debian's mirror")
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	m, err := bed.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}
