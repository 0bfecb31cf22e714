package control

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/codeagent/sandbox/hypervisor/remote"
)

// relaying moves the streams of a command of ours in another process's session, which has not our files.
type relaying struct {
	c       *Client
	which   which
	output  sync.WaitGroup
	reading context.Context // ends when the command has
}

// terminal returns what stands for the command's terminal here.
func (r *relaying) terminal() (*os.File, error) {
	outer, inner, err := remote.TerminalPair()
	if err != nil {
		return nil, err
	}
	r.output.Go(func() {
		r.show(streamTerminal, inner)
		_ = inner.Close()
	})
	go r.read(inner)
	return outer, nil
}

// streams moves stdin, stdout and stderr.
func (r *relaying) streams(stdin io.Reader, stdout, stderr io.Writer) {
	r.output.Go(func() { r.show("stdout", stdout) })
	r.output.Go(func() { r.show("stderr", stderr) })
	go r.read(stdin)
}

// show writes what comes of a stream, until its end.
func (r *relaying) show(stream string, to io.Writer) {
	p := outputParams{which: r.which, Stream: stream}
	for {
		var res outputResult
		if r.c.Call(context.Background(), "run_output", p, &res, nil) != nil || res.End {
			return
		}
		if _, err := to.Write(res.Data); err != nil {
			p.Close = true // the command hears that nobody reads it
		}
	}
}

// read passes on what is to be read, until its end or that of the command: then it ends with the next read, since a read of
// the caller's file is not ours to interrupt.
func (r *relaying) read(from io.Reader) {
	b := make([]byte, maxOutput)
	for {
		n, err := from.Read(b)
		p := inputParams{which: r.which, Data: b[:n], End: err != nil}
		var res inputResult
		if r.c.Call(r.reading, "run_input", p, &res, nil) != nil || res.Over || p.End {
			return
		}
	}
}

// wantsRelay reports whether a session has refused a command because its streams are to be relayed.
func wantsRelay(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == CodeRelay
}
