// Package phases tells where the time of a start of the program goes, by the lines of its log. It decides nothing and keeps nothing.
package phases
