package doctor

import (
	"strings"
	"testing"
)

// TestWriteFeatures: a table of all isolations says who has what, that of one also why.
func TestWriteFeatures(t *testing.T) {
	var all, one strings.Builder
	WriteFeatures(&all, Features("auto"))
	WriteFeatures(&one, Features("vm"))
	for text, lines := range map[string][]string{
		all.String(): {
			"FEATURE\tASKED FOR BY\tJAIL\tLANDLOCK\tVM\tNONE\n",
			"containers\t--containers\twith fuse\tno\tno\tno\n",
			"hide\t--hide\tyes\tyes*\tyes*\tno\n",
			"9p\t--fs-backend 9p\tno\tno\twith 9p\tno\n",
			"steps inside\t-\tyes\tno\tno\tno\n",
		},
		one.String(): {
			"FEATURE\tASKED FOR BY\tVM\tBECAUSE\n",
			"hide\t--hide\tyes*\tin the working folders; nothing else of the host is there\n",
			"network policy\t--network allowlist, --network ask\tyes\t\n",
		},
	} {
		for _, line := range lines {
			if !strings.Contains(text, line) {
				t.Errorf("no %q in\n%s", line, text)
			}
		}
	}
	WriteFeatures(&one, nil)
}
