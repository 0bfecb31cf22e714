package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// Row is one line of the table: what it took against something else, or a
// figure with a limit.
type Row struct {
	Group string `json:"group"`
	Name  string `json:"name"`
	// Ours and Theirs are in milliseconds; Value is in Unit, where there is
	// nothing to divide by.
	Ours   float64 `json:"ours_ms,omitempty"`
	Theirs float64 `json:"theirs_ms,omitempty"`
	Ratio  float64 `json:"ratio,omitempty"`
	// Lower and Upper are the quartiles of the turns' ratios.
	Lower float64 `json:"lower_quartile,omitempty"`
	Upper float64 `json:"upper_quartile,omitempty"`
	Value float64 `json:"value,omitempty"`
	Unit  string  `json:"unit,omitempty"`
	// Goal is the largest ratio or value wanted; 0 where there is none.
	Goal float64 `json:"goal,omitempty"`
	// Note is a line of figures without a goal.
	Note string `json:"note,omitempty"`
	// Missing says why there is no figure.
	Missing string `json:"missing,omitempty"`
}

func (w Row) verdict() string {
	v := w.Ratio
	if w.Unit != "" {
		v = w.Value
	}
	switch {
	case w.Missing != "", w.Goal == 0:
		return ""
	case v <= w.Goal:
		return "ok"
	}
	return "MISSED"
}

// Report collects rows, and writes each to progress as it comes. One goroutine uses it at a time.
type Report struct {
	Progress io.Writer // where each row is told when it comes
	rows     []Row
}

// New makes a report that writes to progress.
func New(progress io.Writer) *Report { return &Report{Progress: progress} }

// Add adds a row.
func (r *Report) Add(w Row) {
	r.rows = append(r.rows, w)
	fmt.Fprintf(r.Progress, "# %s: %s: %s\n", w.Group, w.Name, w.figure())
}

// Ratio compares what was measured in turns. It is the median of the turns' own
// ratios: a machine's slow minute then slows both sides of a ratio.
func (r *Report) Ratio(group, name string, ours, theirs []time.Duration, goal float64) {
	w := Row{Group: group, Name: name, Ours: MS(Median(ours)), Theirs: MS(Median(theirs)), Goal: goal}
	var each []float64
	for i := range min(len(ours), len(theirs)) {
		each = append(each, float64(ours[i])/float64(max(theirs[i], 1)))
	}
	if len(each) > 0 {
		slices.Sort(each)
		n := len(each)
		w.Lower, w.Ratio, w.Upper = each[n/4], each[n/2], each[n*3/4]
	}
	r.Add(w)
}

// Value adds a figure in a unit, with the largest that is wanted; 0: there is none.
func (r *Report) Value(group, name string, value float64, unit string, goal float64) {
	r.Add(Row{Group: group, Name: name, Value: value, Unit: unit, Goal: goal})
}

// Note adds a line of figures without a goal.
func (r *Report) Note(group, name, text string) {
	r.Add(Row{Group: group, Name: name, Note: text})
}

// Missing adds why there is no figure.
func (r *Report) Missing(group, name string, err error) {
	r.Add(Row{Group: group, Name: name, Missing: err.Error()})
}

func (w Row) figure() string {
	switch {
	case w.Missing != "":
		return "left out: " + w.Missing
	case w.Note != "":
		return w.Note
	case w.Unit != "":
		return fmt.Sprintf("%.4g %s", w.Value, w.Unit)
	}
	return fmt.Sprintf("%.2f (%.2f-%.2f; %.1f ms / %.1f ms)", w.Ratio, w.Lower, w.Upper, w.Ours, w.Theirs)
}

// Table writes all rows, in groups.
func (r *Report) Table(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	group := ""
	for _, w := range r.rows {
		if w.Group != group {
			group = w.Group
			fmt.Fprintf(t, "\n%s\t\tgoal\t\n", group)
		}
		goal := ""
		if w.Goal != 0 {
			goal = fmt.Sprintf("<= %.4g", w.Goal)
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", w.Name, w.figure(), goal, w.verdict())
	}
	_ = t.Flush()
}

// WriteJSON writes all rows and the facts about the machine into a file.
func (r *Report) WriteJSON(file string, facts map[string]string) error {
	b, err := json.MarshalIndent(map[string]any{"machine": facts, "rows": r.rows}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}

// MS is a duration in milliseconds.
func MS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Median is the median of durations, or 0 of none.
func Median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Clone(d)
	slices.Sort(d)
	return d[len(d)/2]
}
