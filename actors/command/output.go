package command

import (
	"slices"

	"github.com/codeagent/sandbox/actors/api"
)

// output is the newest of what a command has written.
type output struct {
	list  []piece
	kept  int   // bytes in list
	total int64 // that were written
}

// piece is something that was written to one stream.
type piece struct {
	at     int64 // bytes that were written before
	stream string
	data   []byte
}

// oldest is where what is kept begins.
func (o *output) oldest() int64 { return o.total - int64(o.kept) }

// after is where it would begin after n more bytes.
func (o *output) after(n int) int64 {
	return max(o.oldest(), o.total+int64(n)-api.CommandOutput)
}

// add keeps data, which is its own from now on, and forgets what there is no more room for.
func (o *output) add(stream string, data []byte) {
	if n := len(o.list); n > 0 && o.list[n-1].stream == stream && len(o.list[n-1].data)+len(data) <= api.CommandData {
		o.list[n-1].data = append(o.list[n-1].data, data...)
	} else {
		o.list = append(o.list, piece{o.total, stream, data})
	}
	o.total += int64(len(data))
	o.kept += len(data)
	drop := 0
	for o.kept > api.CommandOutput {
		p := &o.list[drop]
		n := min(o.kept-api.CommandOutput, len(p.data))
		p.at, p.data, o.kept = p.at+int64(n), p.data[n:], o.kept-n
		if len(p.data) == 0 {
			drop++
		}
	}
	o.list = slices.Delete(o.list, 0, drop)
}

// given is how many bytes one answer to a follower has, about.
const given = 2 * api.CommandData

// from returns what is kept from at on, as events: about as much as one answer has.
func (o *output) from(at int64) (events []api.CommandEvent) {
	missed := max(0, o.oldest()-at)
	at += missed
	first, _ := slices.BinarySearchFunc(o.list, at, func(p piece, at int64) int {
		if p.at+int64(len(p.data)) <= at {
			return -1
		}
		return 1
	})
	size := 0
	for _, p := range o.list[first:] {
		if size >= given {
			break
		}
		skip := max(0, at-p.at)
		data := slices.Clone(p.data[skip:])
		events = append(events, api.CommandEvent{At: p.at + skip, Missed: missed, Stream: p.stream, Data: data})
		missed, size = 0, size+len(data)
	}
	return events
}

// newest returns the newest bytes of all streams, at most limit, and how many were written before.
func (o *output) newest(limit int) (data []byte, omitted int64) {
	for _, p := range o.list {
		data = append(data, p.data...)
	}
	data = data[max(0, len(data)-limit):]
	return data, o.total - int64(len(data))
}
