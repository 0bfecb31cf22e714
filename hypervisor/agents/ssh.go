package agents

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Of the agent's protocol, RFC 9987 (draft-ietf-sshm-ssh-agent), and of OpenSSH's PROTOCOL.agent.
const (
	failure           = 5
	success           = 6
	listKeys          = 11
	keys              = 12
	sign              = 13
	signature         = 14
	extension         = 27
	extensionFailure  = 28
	bind              = "session-bind@openssh.com"
	flagSHA256        = 2
	flagSHA512        = 4
	authRequest       = 50 // SSH_MSG_USERAUTH_REQUEST
	authService       = "ssh-connection"
	authKey           = "publickey"
	authKeyAtHost     = "publickey-hostbound-v00@openssh.com"
	sigMagic          = "SSHSIG"
	maxMessage        = 256 << 10
	maxKeys           = 2048
	maxText           = 256 // of a user's name or a namespace
	fingerprintPrefix = "SHA256:"
)

// errMalformed is why a message does not pass.
var errMalformed = errors.New("it is malformed")

// Kind says what a signature is for.
type Kind string

// The kinds.
const (
	Login Kind = "login" // to log in at a server
	Sign  Kind = "sign"  // of a text, as ssh-keygen -Y sign makes it
)

// Use is one use of a key: what a person is asked about.
type Use struct {
	// Key is the fingerprint of the key, SHA256:..., or with [OpenPGP] its grip; Comment is what the agent calls it, or its user's name, and empty if nobody has said so.
	Key, Comment string
	Kind         Kind
	// Namespace is what a [Sign] is for: "git", "file".
	Namespace string
	// User is who logs in with a [Login]; Server is the fingerprint of the key of the only server that takes the signature, and empty if any takes it that the
	// connection leads to.
	User, Server string
}

// Subject is what a rule about just this names: ssh:SHA256:KEY:sign:NAMESPACE, ssh:SHA256:KEY:login:USER[:SHA256:SERVER] or gpg:GRIP:sign.
func (u Use) Subject() string {
	if u.Kind == OpenPGP {
		return "gpg:" + u.Key + ":sign"
	}
	text := "ssh:" + u.Key + ":" + string(u.Kind) + ":"
	if u.Kind == Sign {
		return text + plain(u.Namespace)
	}
	if text += plain(u.User); u.Server != "" {
		text += ":" + u.Server
	}
	return text
}

// ParseUse is the use whose [Use.Subject] is text. A pattern of several is an error, as is what no agent is asked for.
func ParseUse(text string) (Use, error) {
	bad := fmt.Errorf("use %q: name one use, ssh:SHA256:KEY:sign:NAMESPACE, ssh:SHA256:KEY:login:USER[:SHA256:SERVER] or gpg:GRIP:sign; ssh-keygen -l says SHA256:KEY, and gpg -K --with-keygrip GRIP", text)
	parts := strings.Split(text, ":")
	if len(parts) == 3 {
		u := Use{Key: parts[1], Kind: OpenPGP}
		if u.Subject() != text || !isGrip(u.Key) || u.Key != strings.ToUpper(u.Key) {
			return Use{}, bad
		}
		return u, nil
	}
	if len(parts) != 5 && len(parts) != 7 {
		return Use{}, bad
	}
	u := Use{Key: parts[1] + ":" + parts[2], Kind: Kind(parts[3])}
	what, ok := unplain(parts[4])
	switch {
	case !ok || what == "" || len(what) > maxText:
		return Use{}, bad
	case u.Kind == Sign:
		u.Namespace = what
	case u.Kind == Login:
		u.User = what
	default:
		return Use{}, bad
	}
	if len(parts) == 7 {
		u.Server = parts[5] + ":" + parts[6]
	}
	if u.Subject() != text || !isFingerprint(u.Key) || u.Server != "" && !isFingerprint(u.Server) {
		return Use{}, bad
	}
	return u, nil
}

// isFingerprint reports whether text is as fingerprint makes it.
func isFingerprint(text string) bool {
	sum, ok := strings.CutPrefix(text, fingerprintPrefix)
	b, err := base64.RawStdEncoding.Strict().DecodeString(sum)
	return ok && err == nil && len(b) == sha256.Size
}

// String says it for people. What a program or the agent chose is written out.
func (u Use) String() string {
	if u.Kind == OpenPGP {
		if u.Comment == "" {
			return "use the gpg key " + u.Key + " to sign"
		}
		return fmt.Sprintf("use the gpg key %q (%s) to sign", u.Comment, u.Key)
	}
	key := u.Key
	if u.Comment != "" {
		key = plain(u.Comment) + " (" + u.Key + ")"
	}
	switch {
	case u.Kind == Sign:
		return fmt.Sprintf("use the ssh key %s to sign for %s", key, plain(u.Namespace))
	case u.Server == "":
		return fmt.Sprintf("use the ssh key %s to log in as %s, at any server", key, plain(u.User))
	}
	return fmt.Sprintf("use the ssh key %s to log in as %s at the server with the key %s", key, plain(u.User), u.Server)
}

// plain is a text as a part of a subject: what could be taken for something else, or act on a terminal, is written as \xNN.
func plain(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("._-@+=%,/", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}

// unplain is the text that plain has made part of. It is not ok where part is cut; what plain would write otherwise is not noticed.
func unplain(part string) (text string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		c := part[i]
		if c == '\\' {
			if i+4 > len(part) || part[i+1] != 'x' {
				return "", false
			}
			n, err := strconv.ParseUint(part[i+2:i+4], 16, 8)
			if err != nil {
				return "", false
			}
			c = byte(n)
			i += 3
		}
		b.WriteByte(c)
	}
	return b.String(), true
}

// reader takes a message apart. After an error everything is empty.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.rest) {
		r.bad, r.rest = true, nil
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) byte() byte {
	if b := r.take(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *reader) number() uint32 {
	if b := r.take(4); len(b) == 4 {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// bytes is a string of the protocol: its length comes first.
func (r *reader) bytes() []byte {
	n := r.number()
	if n > maxMessage {
		r.bad = true
	}
	return r.take(int(min(n, maxMessage+1)))
}

// text is a string of at most [maxText] bytes, none of them zero.
func (r *reader) text() string {
	b := r.bytes()
	if len(b) > maxText || bytes.IndexByte(b, 0) >= 0 {
		r.bad = true
	}
	return string(b)
}

// end is an error if something was wrong, or is left.
func (r *reader) end() error {
	if r.bad || len(r.rest) > 0 {
		return errMalformed
	}
	return nil
}

// parseSign takes a request for a signature apart.
func parseSign(body []byte) (Use, error) {
	r := &reader{rest: body}
	key, data, flags := r.bytes(), r.bytes(), r.number()
	if err := r.end(); err != nil || len(key) == 0 {
		return Use{}, errMalformed
	}
	if flags != 0 && flags != flagSHA256 && flags != flagSHA512 {
		return Use{}, fmt.Errorf("it has flags that nobody knows here, %#x", flags)
	}
	u, err := parseSigned(data, key)
	u.Key = fingerprint(key)
	return u, err
}

// parseSigned says what a key shall sign.
func parseSigned(data, key []byte) (Use, error) {
	if rest, ok := bytes.CutPrefix(data, []byte(sigMagic)); ok {
		r := &reader{rest: rest}
		u := Use{Kind: Sign, Namespace: r.text()}
		r.bytes() // reserved
		size := map[string]int{"sha256": 32, "sha512": 64}[r.text()]
		hash := r.bytes()
		if err := r.end(); err != nil || u.Namespace == "" || size == 0 || len(hash) != size {
			return Use{}, errMalformed
		}
		return u, nil
	}
	r := &reader{rest: data}
	r.bytes() // the session's id
	kind := r.byte()
	u := Use{Kind: Login, User: r.text()}
	service, method, signed := r.text(), r.text(), r.byte()
	r.text() // the algorithm
	with := r.bytes()
	if method == authKeyAtHost {
		u.Server = fingerprint(r.bytes())
	}
	switch err := r.end(); {
	case err != nil, kind != authRequest, service != authService, method != authKey && method != authKeyAtHost, signed != 1, u.User == "":
		return Use{}, errors.New("what is to be signed is neither a log-in by ssh nor a signature of ssh-keygen's")
	case !bytes.Equal(with, key):
		return Use{}, errors.New("what is to be signed names another key")
	}
	return u, nil
}

// checkBind returns an error for an extension that does not pass, or is malformed.
func checkBind(body []byte) error {
	r := &reader{rest: body}
	if name := r.text(); name != bind {
		return errors.New("it is an extension that does not pass")
	}
	host, session, proof := r.bytes(), r.bytes(), r.bytes()
	if forwarding := r.byte(); forwarding > 1 || len(host) == 0 || len(session) == 0 || len(proof) == 0 {
		return errMalformed
	}
	return r.end()
}

// parseKeys returns the comments of the keys that an agent has, by their fingerprints.
func parseKeys(body []byte) (map[string]string, error) {
	r := &reader{rest: body}
	n := r.number()
	if n > maxKeys {
		return nil, errMalformed
	}
	names := make(map[string]string)
	for range n {
		key, comment := r.bytes(), r.bytes()
		if r.bad || len(key) == 0 {
			return nil, errMalformed
		}
		names[fingerprint(key)] = string(comment[:min(len(comment), maxText)])
	}
	return names, r.end()
}

// checkSignature returns an error for an answer that is no signature.
func checkSignature(body []byte) error {
	r := &reader{rest: body}
	blob := &reader{rest: r.bytes()}
	if err := r.end(); err != nil || blob.text() == "" || len(blob.bytes()) == 0 {
		return errMalformed
	}
	return nil // a signature of a key on a token has more in it
}

func fingerprint(key []byte) string {
	sum := sha256.Sum256(key)
	return fingerprintPrefix + base64.RawStdEncoding.EncodeToString(sum[:])
}
