package e2b

import (
	"os"
	"path/filepath"
	"testing"
)

// TestGroupMemory: a container with a limit has that much memory, and uses what the kernel cannot drop.
func TestGroupMemory(t *testing.T) {
	for name, c := range map[string]struct {
		files       map[string]string
		limit, used int64
		ok          bool
	}{
		"a limit":          {map[string]string{"memory.max": "1000\n", "memory.current": "700\n", "memory.stat": "anon 500\ninactive_file 150\nfile 200\n"}, 1000, 550, true},
		"more to drop":     {map[string]string{"memory.max": "1000\n", "memory.current": "100\n", "memory.stat": "inactive_file 150\n"}, 1000, 0, true},
		"no limit":         {map[string]string{"memory.max": "max\n", "memory.current": "700\n"}, 0, 0, false},
		"the root":         {nil, 0, 0, false},
		"half of a group":  {map[string]string{"memory.max": "1000\n"}, 0, 0, false},
		"nothing to drop":  {map[string]string{"memory.max": "1000\n", "memory.current": "700\n"}, 1000, 700, true},
		"what is no group": {map[string]string{"memory.max": "x", "memory.current": "y"}, 0, 0, false},
	} {
		dir := t.TempDir()
		for file, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if limit, used, ok := groupMemory(dir); ok != c.ok || ok && (limit != c.limit || used != c.used) {
			t.Errorf("%s: %d, %d, %t", name, limit, used, ok)
		}
	}
}
