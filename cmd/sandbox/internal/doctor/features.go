package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/hypervisor"
)

// Feature is what sessions can have, and in which setups they have it.
type Feature struct {
	Name string `json:"name"`
	What string `json:"what"`
	// Flags and Keys ask for it; none: the setup alone decides.
	Flags []string `json:"flags"`
	Keys  []string `json:"keys"`
	In    []Setup  `json:"in"`
}

// Setup is an answer for an isolation and a bridge.
type Setup struct {
	Isolation string `json:"isolation"`
	Bridge    string `json:"bridge"`
	Has       bool   `json:"has"`
	// Text is the condition, or why not.
	Text string `json:"text,omitempty"`
}

// Features are all, of the setups of one isolation, or with "auto" of all setups.
func Features(isolation string) (out []Feature) {
	for _, f := range hypervisor.Features() {
		row := Feature{Name: f.Name, What: f.What, Flags: []string{}, Keys: []string{}}
		for _, w := range f.Wishes {
			row.Keys = append(row.Keys, w.Key)
			if w.Flag == "" {
				continue
			}
			for _, v := range append(slices.Clone(w.Values), "")[:max(len(w.Values), 1)] {
				row.Flags = append(row.Flags, strings.TrimSpace("--"+w.Flag+" "+v))
			}
		}
		for i, s := range hypervisor.Setups() {
			if isolation == "auto" || isolation == s.Isolation {
				row.In = append(row.In, Setup{Isolation: s.Isolation, Bridge: string(s.Bridge), Has: f.On[i].Has, Text: f.On[i].Text})
			}
		}
		out = append(out, row)
	}
	return out
}

// WriteFeatures writes them for people, in columns that tabs end: of several isolations which one has what ("yes*": in a way of its own), of one isolation also why not.
func WriteFeatures(w io.Writer, list []Feature) {
	if len(list) == 0 {
		return
	}
	var isolations []string
	for _, s := range list[0].In {
		if !slices.Contains(isolations, s.Isolation) {
			isolations = append(isolations, s.Isolation)
		}
	}
	fmt.Fprintf(w, "FEATURE\tASKED FOR BY\t%s", strings.ToUpper(strings.Join(isolations, "\t")))
	one := len(isolations) == 1
	if one {
		fmt.Fprint(w, "\tBECAUSE")
	}
	fmt.Fprintln(w)
	for _, f := range list {
		cells := []string{f.Name, strings.Join(f.Flags, ", ")}
		if cells[1] == "" {
			cells[1] = "-"
		}
		for _, isolation := range isolations {
			cells = append(cells, inOne(f.In, isolation))
		}
		if one {
			cells = append(cells, because(f.In))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
}

// inOne says in a word which setups of an isolation have it.
func inOne(in []Setup, isolation string) string {
	var with []string
	all, conditional := 0, false
	for _, s := range in {
		if s.Isolation != isolation {
			continue
		}
		if all++; s.Has {
			with, conditional = append(with, s.Bridge), conditional || s.Text != ""
		}
	}
	switch {
	case len(with) == 0:
		return "no"
	case len(with) < all:
		return "with " + strings.Join(with, ", ")
	case conditional:
		return "yes*"
	}
	return "yes"
}

// because are the different reasons and conditions.
func because(in []Setup) string {
	var texts []string
	for _, s := range in {
		if s.Text != "" && !slices.Contains(texts, s.Text) {
			texts = append(texts, s.Text)
		}
	}
	return strings.Join(texts, "; ")
}
