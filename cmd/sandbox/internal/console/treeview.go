package console

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

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

// WriteMessages prints the last messages of all actors of the tree in one list, the newest last, with tabs between
// the columns. most bounds the lines; 0 does not.
func WriteMessages(w io.Writer, t api.Tree, most int) {
	list := heardBelow(t.Root, "")
	slices.SortStableFunc(list, func(a, b heardBy) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.part, b.part)) })
	if most > 0 && len(list) > most {
		list = list[len(list)-most:]
	}
	fmt.Fprintln(w, "TIME\tPART\tMESSAGE\tTOOK\t")
	for _, m := range list {
		took := (time.Duration(m.TookMicroseconds) * time.Microsecond).String()
		switch {
		case m.Panicked:
			took += ", crashed"
		case m.Running:
			took += ", still working"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t\n", m.At.Local().Format("15:04:05.000"), Shown(m.part), Shown(m.Type), took)
	}
}

// heardBy is a message and the part that took it: "directory/0/interceptor".
type heardBy struct {
	part string
	api.ActorMessage
}

func heardBelow(n api.TreeNode, above string) (all []heardBy) {
	for _, m := range n.Messages {
		all = append(all, heardBy{cmp.Or(above, "session"), m})
	}
	for _, c := range n.Children {
		name := c.Name
		if above != "" {
			name = above + "/" + name
		}
		all = append(all, heardBelow(c, name)...)
	}
	return all
}
