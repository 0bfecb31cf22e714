package stdio_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/codeagent/sandbox/actors/frontend/stdio"
)

// BenchmarkStatus is what one session.status costs the server, without pipes.
func BenchmarkStatus(b *testing.B) {
	const batch = 100
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = stdio.New(stdio.Options{In: inR, Out: outW, Version: "test"}).Serve(context.Background())
		_ = outW.Close()
	}()
	var lines bytes.Buffer
	for i := range batch {
		fmt.Fprintf(&lines, `{"type":"session.status","request_id":"r%d"}`+"\n", i)
	}
	buf := make([]byte, 64<<10)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += batch {
		if _, err := inW.Write(lines.Bytes()); err != nil {
			b.Fatal(err)
		}
		for got := 0; got < batch; {
			k, err := outR.Read(buf)
			if err != nil {
				b.Fatal(err)
			}
			got += bytes.Count(buf[:k], []byte{'\n'})
		}
	}
	b.StopTimer()
	_ = inW.Close()
	_, _ = io.Copy(io.Discard, outR)
	<-done
}
