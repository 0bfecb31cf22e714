package stdio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// outboxMessage is an item that counts how often its sender heard of its end.
func outboxMessage(c outboxClass, size int, written *int) outboxItem {
	return outboxItem{Class: c, Head: bytes.Repeat([]byte{'x'}, size), Written: func() { *written++ }}
}

// TestRoom: where a class has no room, whoever puts a message of it waits, and nobody else.
func TestRoom(t *testing.T) {
	q, written := newQueue(), 0
	if err := q.Put(t.Context(), outboxMessage(outputClass, 1<<20, &written)); err != nil {
		t.Fatalf("the first message, which is larger than the room: %v", err)
	}
	gone, cancel := context.WithCancelCause(t.Context())
	want := errors.New("the request is gone")
	cancel(want)
	if err := q.Put(gone, outboxMessage(outputClass, 1, &written)); !errors.Is(err, want) || written != 1 {
		t.Errorf("without room: %v, told %d times", err, written)
	}
	for _, c := range []outboxClass{refusalClass, eventClass, responseClass, responseClass} {
		if err := q.Put(gone, outboxMessage(c, 10, &written)); err != nil {
			t.Errorf("class %d waits for another: %v", c, err)
		}
	}
	waits := make(chan error)
	go func() { waits <- q.Put(t.Context(), outboxItem{Class: outputClass, Head: []byte("last\n")}) }()
	var out bytes.Buffer
	ended := make(chan error)
	go func() { ended <- q.Run(&out) }()
	if err := <-waits; err != nil {
		t.Errorf("once there is room: %v", err)
	}
	q.Close()
	if err := <-ended; err != nil || written != 6 {
		t.Errorf("run: %v, told %d times", err, written)
	}
	if !strings.HasSuffix(out.String(), "last\n") || q.Sent() != int64(out.Len()) {
		t.Errorf("wrote %d bytes, says %d", out.Len(), q.Sent())
	}
}

// TestClientGone: what cannot be sent is dropped, and each sender hears once of its end.
func TestClientGone(t *testing.T) {
	q, written := newQueue(), 0
	q.PutResponses([]outboxItem{outboxMessage(responseClass, 10, &written), outboxMessage(responseClass, 2*maxWrite, &written)})
	r, w := io.Pipe()
	_ = r.Close()
	if err := q.Run(w); !errors.Is(err, io.ErrClosedPipe) || written != 2 {
		t.Errorf("run: %v, told %d times", err, written)
	}
	if err := q.Put(t.Context(), outboxMessage(eventClass, 10, &written)); !errors.Is(err, errOutboxClosed) || written != 3 {
		t.Errorf("afterwards: %v, told %d times", err, written)
	}
	q.PutResponses([]outboxItem{outboxMessage(responseClass, 10, &written)})
	if written != 4 {
		t.Errorf("told %d times", written)
	}
}
