package agents

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Bounds of what is relayed.
const (
	mostConnections = 16
	mostIdle        = time.Hour
	pause           = 100 * time.Millisecond // after a connection that cannot be taken
	patience        = time.Minute            // for the rest of a message, and for writing one
	mostWaiting     = 5 * time.Minute        // for the agent, which may ask its user
)

// Options make a [Relay].
type Options struct {
	// Dial connects to the agent.
	Dial func(ctx context.Context) (net.Conn, error)
	// Use decides about one use of a key; it waits until somebody has decided. client is the connection of the program that asks. The context ends with it.
	Use func(ctx context.Context, u Use, client net.Conn) bool
	// Names are of the keys of a gpg-agent, by their grips in capital letters. An ssh-agent says them itself.
	Names map[string]string
	// Logger hears what did not pass. Nil: nobody does.
	Logger *slog.Logger
}

// Relay passes on what may be passed on. It is safe for concurrent use.
type Relay struct {
	o     Options
	speak func(r *Relay, client, agent net.Conn) speech

	mu    sync.Mutex
	names map[string]string // of keys, by fingerprint: the last list of the agent
}

// speech is the conversation with one program, in an agent's protocol. Only receive is called while another method is.
type speech interface {
	// greet is what the program hears first. It returns when the agent has answered: until then the connection waits in the queue of the agent's socket, also after it was closed, and a program that
	// connects again and again would fill that queue, which is for others of the user, too.
	greet() []byte
	// receive reads what the program sends.
	receive() (message, error)
	// answer is what the program gets for it. The context ends when the program does.
	answer(ctx context.Context, m message) []byte
}

// New makes a relay to an ssh-agent.
func New(o Options) *Relay { return newRelay(o, newServed) }

// NewGPG makes a relay to a gpg-agent.
func NewGPG(o Options) *Relay { return newRelay(o, newAssuan) }

func newRelay(o Options, speak func(r *Relay, client, agent net.Conn) speech) *Relay {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Relay{o: o, speak: speak}
}

// Serve accepts programs inside until the listener is closed, and returns when all connections have ended.
func (r *Relay) Serve(l net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	defer served.Wait()
	defer cancel()
	room := make(chan struct{}, mostConnections)
	for {
		room <- struct{}{}
		c, err := l.Accept()
		for ; err != nil; c, err = l.Accept() {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			r.o.Logger.Warn("the agent cannot be reached from inside at the moment", "err", err)
			<-time.After(pause) // there may be too many files open
		}
		served.Go(func() {
			defer func() { <-room }()
			r.connection(ctx, c)
		})
	}
}

// connection serves one program, with a connection to the agent of its own: what it binds that to is its own.
func (r *Relay) connection(ctx context.Context, client net.Conn) {
	defer client.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = client.Close() })
	defer stop()
	agent, err := r.o.Dial(ctx)
	if err != nil {
		r.o.Logger.Warn("the agent cannot be reached", "err", err)
	} else {
		defer agent.Close()
		defer context.AfterFunc(ctx, func() { _ = agent.Close() })()
	}
	s, messages := r.speak(r, client, agent), make(chan message)
	if write(client, s.greet()) != nil {
		return
	}
	go func() {
		defer cancel() // whoever has gone does not wait for a decision
		r.read(ctx, s, messages)
	}()
	for m := range messages {
		answer := s.answer(ctx, m)
		if ctx.Err() != nil || write(client, answer) != nil {
			return
		}
	}
}

// message is one of the protocol: its type, and the rest.
type message struct {
	kind byte
	body []byte
}

// read reads what the program sends, one message ahead, so that its end is noticed while somebody decides.
func (r *Relay) read(ctx context.Context, s speech, messages chan<- message) {
	defer close(messages)
	for {
		m, err := s.receive()
		if err != nil {
			if !errors.Is(err, io.EOF) && ctx.Err() == nil {
				r.o.Logger.Warn("a program inside does not speak to its agent as it should", "err", err)
			}
			return
		}
		select {
		case messages <- m:
		case <-ctx.Done():
			return
		}
	}
}

// served speaks ssh-agent's protocol with one program.
type served struct {
	r             *Relay
	client, agent net.Conn // agent is nil if there is none, or it has lied
}

func newServed(r *Relay, client, agent net.Conn) speech {
	return &served{r: r, client: client, agent: agent}
}

// greet asks for the list of keys, which names them in questions, too.
func (s *served) greet() []byte {
	if s.agent == nil {
		return nil
	}
	if _, err := s.ask(message{kind: listKeys}); err != nil {
		s.lost(listKeys, err)
	}
	return nil
}

// lost gives an agent up that is not there any more, or lies.
func (s *served) lost(kind byte, err error) {
	s.r.o.Logger.Warn("the agent does not answer as it should", "type", kind, "err", err)
	_ = s.agent.Close()
	s.agent = nil
}

func (s *served) receive() (message, error) { return receive(s.client, mostIdle) }

func (s *served) answer(ctx context.Context, m message) []byte { return framed(s.respond(ctx, m)) }

func (s *served) respond(ctx context.Context, m message) message {
	refused := message{kind: failure}
	if s.agent == nil {
		return refused
	}
	var use Use
	var err error
	switch m.kind {
	case listKeys:
		if len(m.body) > 0 {
			err = errMalformed
		}
	case sign:
		if use, err = parseSign(m.body); err == nil {
			use.Comment = s.r.name(use.Key)
			if !s.r.o.Use(ctx, use, s.client) {
				return refused
			}
		}
	case extension:
		err = checkBind(m.body)
	default:
		err = errors.New("it does not pass")
	}
	if err != nil {
		s.r.o.Logger.Info("a request to the agent was refused", "type", m.kind, "err", err)
		return refused
	}
	answer, err := s.ask(m)
	if err != nil {
		s.lost(m.kind, err)
		return refused
	}
	return answer
}

// ask asks the agent, and checks that its answer is one.
func (s *served) ask(m message) (message, error) {
	if err := send(s.agent, m); err != nil {
		return message{}, err
	}
	answer, err := receive(s.agent, mostWaiting)
	if err != nil {
		return message{}, err
	}
	switch {
	case answer.kind == failure, answer.kind == extensionFailure && m.kind == extension, answer.kind == success && m.kind == extension:
		return message{kind: answer.kind}, nil
	case answer.kind == keys && m.kind == listKeys:
		names, err := parseKeys(answer.body)
		if err == nil {
			s.r.setNames(names)
		}
		return answer, err
	case answer.kind == signature && m.kind == sign:
		return answer, checkSignature(answer.body)
	}
	return message{}, fmt.Errorf("type %d answers type %d", answer.kind, m.kind)
}

func (r *Relay) setNames(names map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names = names
}

func (r *Relay) name(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.names[key]
}

// receive reads a message, which has to begin within some time and is soon complete then.
func receive(c net.Conn, begin time.Duration) (message, error) {
	_ = c.SetReadDeadline(time.Now().Add(begin))
	var head [5]byte
	if _, err := io.ReadFull(c, head[:1]); err != nil {
		return message{}, err
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(c, head[1:]); err != nil {
		return message{}, whole(err)
	}
	n := binary.BigEndian.Uint32(head[:4])
	if n < 1 || n > maxMessage {
		return message{}, fmt.Errorf("a message of %d bytes: at least one and at most %d are allowed", n, maxMessage)
	}
	m := message{kind: head[4], body: make([]byte, n-1)}
	_, err := io.ReadFull(c, m.body)
	return m, whole(err)
}

// whole makes an end in the midst of a message an error.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func send(c net.Conn, m message) error { return write(c, framed(m)) }

func framed(m message) []byte {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(m.body)+1))
	return append(append(frame, m.kind), m.body...)
}

func write(c net.Conn, text []byte) error {
	if len(text) == 0 {
		return nil
	}
	_ = c.SetWriteDeadline(time.Now().Add(patience))
	_, err := c.Write(text)
	return err
}
