//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("treecmp", flag.ContinueOnError)
	flags.SetOutput(stderr)
	save := flags.String("save", "", "write a snapshot of the tree to this `file`")
	against := flags.String("against", "", "compare the tree with the snapshot in this `file`")
	most := flags.Int("max", 50, "print at most `n` differences")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	diffs, err := act(flags.Args(), *save, *against, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "treecmp:", err)
		return 2
	}
	for i, d := range diffs {
		if i == *most {
			fmt.Fprintf(stdout, "... and %d more\n", len(diffs)-i)
			break
		}
		fmt.Fprintln(stdout, d)
	}
	if len(diffs) > 0 {
		return 1
	}
	return 0
}

func act(trees []string, save, against string, stdout io.Writer) ([]string, error) {
	want := 1
	if save == "" && against == "" {
		want = 2
	}
	if len(trees) != want || (save != "" && against != "") {
		return nil, errors.New("usage: treecmp A B | -save FILE TREE | -against FILE TREE")
	}
	last, err := scan(trees[len(trees)-1])
	if err != nil {
		return nil, err
	}
	var first map[string]node
	switch {
	case save != "":
		b, err := json.Marshal(last)
		if err != nil {
			return nil, err
		}
		fmt.Fprintln(stdout, count(last))
		return nil, os.WriteFile(save, b, 0o600)
	case against != "":
		b, err := os.ReadFile(against)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(b, &first); err != nil {
			return nil, fmt.Errorf("%s: %w", against, err)
		}
	default:
		if first, err = scan(trees[0]); err != nil {
			return nil, err
		}
	}
	diffs := compare(first, last)
	if len(diffs) == 0 {
		fmt.Fprintln(stdout, count(last)+": no difference")
	}
	return diffs, nil
}

func count(t map[string]node) string {
	byType := map[string]int{}
	var bytes int64
	for _, n := range t {
		byType[n.Type]++
		if n.Type == "file" {
			bytes += n.Size
		}
	}
	return fmt.Sprintf("%d files, %d directories, %d symlinks, %d others, %.1f MB",
		byType["file"], byType["dir"], byType["symlink"],
		len(t)-byType["file"]-byType["dir"]-byType["symlink"], float64(bytes)/1e6)
}
