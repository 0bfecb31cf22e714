package console

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/actors/api"
)

// WriteTree prints the tree as a table, with tabs between the columns.
func WriteTree(w io.Writer, t api.Tree) {
	fmt.Fprintln(w, "PART\tSTATE\tQUEUE\tRESTARTS\tHOLDS\tIN FLIGHT\t")
	writeNode(w, t.Root, "", "")
}

func writeNode(w io.Writer, n api.TreeNode, lead, leadBelow string) {
	var facts []string
	for _, k := range slices.Sorted(maps.Keys(n.Facts)) {
		facts = append(facts, k+"="+n.Facts[k])
	}
	if n.LastError != "" {
		facts = append(facts, "last error: "+n.LastError)
	}
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%s\n",
		lead+n.Name, n.State, n.Mailbox, n.Restarts, n.Holds, Bytes(n.BytesHeld), Shown(strings.Join(facts, " ")))
	for i, c := range n.Children {
		if i == len(n.Children)-1 {
			writeNode(w, c, leadBelow+"└─ ", leadBelow+"   ")
		} else {
			writeNode(w, c, leadBelow+"├─ ", leadBelow+"│  ")
		}
	}
}
