package store

import (
	"errors"
	"fmt"
	"slices"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// cachedGroup is a decoded group, or one that is being decoded.
type cachedGroup struct {
	n     int
	users int           // needs mu; with none the buffers may become another's
	ready chan struct{} // closed when what follows is there
	data  []byte
	err   error

	packed []byte // a buffer
}

// group returns the decoded group n, which stays as it is until it is released.
// Whoever asks for what another goroutine decodes waits for that.
func (p *PackReader) group(n int) (*cachedGroup, error) {
	c, mine := p.take(n)
	if mine {
		c.err = p.decode(c)
		close(c.ready)
	}
	<-c.ready
	if c.err != nil {
		p.release(c)
		return nil, c.err
	}
	return c, nil
}

// take finds the group n in the cache, or makes room for it: then it is the
// caller's to decode.
func (p *PackReader) take(n int) (c *cachedGroup, mine bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(p.cache, func(c *cachedGroup) bool { return c.n == n }); i >= 0 {
		c = p.cache[i]
		p.cache = append(slices.Delete(p.cache, i, i+1), c)
		c.users++
		return c, false
	}
	c = &cachedGroup{n: n, users: 1, ready: make(chan struct{})}
	if len(p.cache) >= cachedGroups {
		if i := slices.IndexFunc(p.cache, func(c *cachedGroup) bool { return c.users == 0 }); i >= 0 {
			c.data, c.packed = p.cache[i].data[:0], p.cache[i].packed // a fresh page costs more than a decoded one
			p.cache = slices.Delete(p.cache, i, i+1)
		}
	}
	p.cache = append(p.cache, c)
	return c, true
}

// release gives a group back. One that could not be decoded is forgotten.
func (p *PackReader) release(c *cachedGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.users--
	if c.err != nil {
		p.cache = slices.DeleteFunc(p.cache, func(x *cachedGroup) bool { return x == c })
	}
}

func (p *PackReader) decode(c *cachedGroup) error {
	g := p.groups[c.n]
	if int64(cap(c.packed)) < g.size {
		c.packed = make([]byte, g.size)
	}
	c.packed = c.packed[:g.size]
	_, err := p.r.ReadAt(c.packed, g.off)
	if err == nil && format.Sum(c.packed) != g.sum {
		err = errors.New("wrong checksum")
	}
	if err == nil && int64(cap(c.data)) < g.raw {
		c.data = make([]byte, 0, groupSize)
	}
	if err == nil {
		c.data, err = p.dec.DecodeAll(c.packed, c.data)
	}
	if err == nil && int64(len(c.data)) != g.raw {
		err = errors.New("wrong length")
	}
	if err != nil {
		return fmt.Errorf("%w: group %d: %w", errDamaged, c.n, err)
	}
	return nil
}

// Content calls f with the bytes of a regular file, piece by piece (valid only
// during the call), each with its offset in the file, and checks their sum at the end.
func (p *PackReader) Content(n *PackNode, f func(off int64, b []byte) error) error {
	sum, pos := uint32(0), n.Start
	for _, s := range n.Segments {
		for off, end := s.Off, s.Off+s.Len; off < end; {
			g, data, err := p.at(pos)
			if err != nil {
				return err
			}
			data = data[:min(int64(len(data)), end-off)]
			sum = format.AddSum(sum, data)
			err = f(off, data)
			p.release(g)
			if err != nil {
				return err
			}
			off, pos = off+int64(len(data)), pos+int64(len(data))
		}
	}
	if sum != n.Sum {
		return fmt.Errorf("%w: wrong checksum of %q", errDamaged, n.Name)
	}
	return nil
}

// at returns the rest of the group that holds byte pos of the content stream,
// and the group, to be released.
func (p *PackReader) at(pos int64) (*cachedGroup, []byte, error) {
	lo, hi := 0, len(p.starts)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; p.starts[mid] <= pos {
			lo = mid
		} else {
			hi = mid
		}
	}
	if pos >= p.total {
		return nil, nil, fmt.Errorf("%w: content beyond the end", errDamaged)
	}
	g, err := p.group(lo)
	if err != nil {
		return nil, nil, err
	}
	return g, g.data[pos-p.starts[lo]:], nil
}
