package agents

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"
)

// assuan speaks gpg-agent's protocol with one program. The agent knows which key and which hash were chosen: nobody else uses its connection.
type assuan struct {
	r             *Relay
	conn          net.Conn
	client, agent *lines // agent is nil if there is none, or it has lied
	grip          string // the chosen key
}

// lines reads lines of bounded length.
type lines struct {
	conn net.Conn
	r    *bufio.Reader
}

func newLines(c net.Conn) *lines {
	return &lines{conn: c, r: bufio.NewReaderSize(c, maxLine+len("\r\n"))}
}

// next reads a line, which has to begin within some time and is soon complete then.
func (l *lines) next(begin time.Duration) (string, error) {
	_ = l.conn.SetReadDeadline(time.Now().Add(begin))
	if _, err := l.r.Peek(1); err != nil {
		return "", err
	}
	_ = l.conn.SetReadDeadline(time.Now().Add(patience))
	text, err := l.r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", errors.New("a line of more than 1,000 bytes")
	case err != nil:
		return "", whole(err)
	}
	return strings.TrimSuffix(string(text[:len(text)-1]), "\r"), nil
}

func (l *lines) write(text string) error { return write(l.conn, []byte(text+"\n")) }

// newAssuan speaks gpg-agent's protocol.
func newAssuan(r *Relay, client, agent net.Conn) speech {
	a := &assuan{r: r, conn: client, client: newLines(client)}
	if agent != nil {
		a.agent = newLines(agent)
	}
	return a
}

func (a *assuan) greet() []byte {
	if a.agent != nil {
		text, err := a.agent.next(patience)
		if err == nil && (text == "OK" || strings.HasPrefix(text, "OK ")) {
			return []byte("OK Pleased to meet you\n")
		}
		a.lost("greeting", err)
	}
	return []byte(errorLine(noAgent) + "\n")
}

func (a *assuan) receive() (message, error) {
	text, err := a.client.next(mostIdle)
	return message{body: []byte(text)}, err
}

func (a *assuan) answer(ctx context.Context, m message) []byte {
	answer := a.lines(ctx, string(m.body))
	return []byte(strings.Join(answer, "\n") + "\n")
}

// lines are what the program gets for one of its own.
func (a *assuan) lines(ctx context.Context, line string) []string {
	q, err := parseRequest(line)
	switch {
	case err != nil:
		a.r.o.Logger.Info("a request to the agent was refused", "command", plain(q.verb[:min(len(q.verb), maxText)]), "err", err)
		return []string{errorLine(forbidden)}
	case a.agent == nil:
		return []string{errorLine(noAgent)}
	case q.verb == "PKSIGN":
		return a.sign(ctx)
	case q.line == "":
		return []string{"OK"}
	}
	answer, ok := a.ask(q)
	switch {
	case q.verb == "RESET":
		a.grip = ""
	case q.verb == "SIGKEY" && ok:
		a.grip = q.grip
	case q.verb == "SIGKEY": // whichever the agent has chosen now, nobody has been told of it
		a.grip = ""
	}
	return answer
}

// sign has the agent sign, if that may be.
func (a *assuan) sign(ctx context.Context) []string {
	if a.grip == "" {
		return []string{errorLine(noKey)}
	}
	u := Use{Key: a.grip, Comment: a.r.o.Names[a.grip], Kind: OpenPGP}
	if !a.r.o.Use(ctx, u, a.conn) {
		return []string{errorLine(forbidden)}
	}
	if answer, ok := a.ask(request{verb: "SETKEYDESC", line: description(u)}); !ok {
		return answer
	}
	answer, _ := a.ask(request{verb: "PKSIGN", line: "PKSIGN"})
	return answer
}

// ask asks the agent, and checks that its answer is one. It returns whether that is OK.
func (a *assuan) ask(q request) ([]string, bool) {
	err := a.agent.write(q.line)
	var r reply
	for err == nil {
		var line string
		if line, err = a.agent.next(mostWaiting); err != nil {
			break
		}
		done, inquired, bad := r.add(q.verb, line)
		switch {
		case bad != nil:
			err = bad
		case done:
			return r.lines, r.lines[len(r.lines)-1] == "OK"
		case inquired:
			err = a.agent.write("CAN")
		}
	}
	a.lost(q.verb, err)
	return []string{errorLine(noAgent)}, false
}

// lost gives an agent up that is not there any more, or lies.
func (a *assuan) lost(what string, err error) {
	if err == nil {
		err = errMalformed
	}
	if !errors.Is(err, io.EOF) || what != "greeting" {
		a.r.o.Logger.Warn("the agent does not answer as it should", "command", what, "err", err)
	}
	_ = a.agent.conn.Close()
	a.agent = nil
}
