package supervision

import "github.com/asynkron/protoactor-go/actor"

// A goroutine begins with 2 KiB of stack, and copies what is on it each time it
// needs twice as much, frame by frame: where goroutines are as short-lived as the
// turns of actors, that takes longer than much of what they do. With nothing on
// the stack yet it takes almost none.

// GrowStack gives the calling goroutine 16 KiB of stack. Call it first.
//
//go:noinline
func GrowStack() byte {
	var room [9 << 10]byte // with what is in use already more than 8 KiB
	return room[stackByte(room[:])]
}

// growStackLittle gives the calling goroutine 4 KiB of stack.
//
//go:noinline
func growStackLittle() byte {
	var room [2 << 10]byte
	return room[stackByte(room[:])]
}

//go:noinline
func stackByte(room []byte) int { return len(room) / 2 } // so that the room is made

// throughput is how many messages an actor handles in one turn, as the library
// has it.
const throughput = 300

// dispatcher runs the turns of actors, each on a goroutine of its own.
type dispatcher struct{}

var _ actor.Dispatcher = dispatcher{}

// Schedule implements [actor.Dispatcher].
func (dispatcher) Schedule(turn func()) {
	go func() {
		growStackLittle()
		turn()
	}()
}

// Throughput implements [actor.Dispatcher].
func (dispatcher) Throughput() int { return throughput }
