package format

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// ErrMalformed is wrapped by every decoding error.
var ErrMalformed = errors.New("undolog: malformed record")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum is the checksum of b.
func Sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// AddSum is the checksum of the bytes that sum is of, and b after them.
func AddSum(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }

// AppendString appends a string with its length.
func AppendString[T string | []byte](b []byte, s T) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// RecordHeaderSize is the length of a frame's header, in bytes.
const RecordHeaderSize = 8

// BeginRecord appends the header of a frame to buf. The payload is appended next, and
// then [EndRecord] is called with buf from the header on.
func BeginRecord(buf []byte) []byte { return append(buf, make([]byte, RecordHeaderSize)...) }

// EndRecord completes a frame: its header, from [BeginRecord], and its payload.
func EndRecord(frame []byte) {
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-RecordHeaderSize))
	binary.LittleEndian.PutUint32(frame[4:], Sum(frame[RecordHeaderSize:]))
}

// RecordHeader reads the header of a frame, of which b has [RecordHeaderSize] bytes at least.
func RecordHeader(b []byte) (length, sum uint32) {
	return binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
}

// WordsSize is how many bytes n words take with their sum.
func WordsSize(n int) int { return 8*n + 8 }

// AppendWords appends words and their sum.
func AppendWords(b []byte, words ...uint64) []byte {
	start := len(b)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	b = binary.LittleEndian.AppendUint32(b, Sum(b[start:]))
	return append(b, 0, 0, 0, 0)
}

// Words reads n words that [AppendWords] wrote at the start of b. It returns nil
// if b is too short, or their sum is wrong.
func Words(b []byte, n int) []uint64 {
	if len(b) < WordsSize(n) || binary.LittleEndian.Uint32(b[8*n:]) != Sum(b[:8*n]) {
		return nil
	}
	words := make([]uint64, n)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return words
}
