// Package wire has the pieces of which the undo log's files are made: numbers,
// strings, frames with a checksum, and records of a fixed size.
//
// In all files of the log, "uint" is an unsigned varint (7 bits a byte, the low
// ones first), "int" a zigzag varint, and "string" is a uint length and that many
// raw bytes. Fixed numbers are little endian. Every sum is a CRC32C (Castagnoli).
//
// A frame ([Begin], [End], [Header]) is
//
//	length  uint32   of the payload
//	sum     uint32   of the payload
//	payload
//
// Words ([AppendWords], [Words]) are some uint64, then the sum of these bytes as
// uint32 and four zero bytes.
//
// What is decoded is taken to be hostile: a length is compared with what is there
// before anything is allocated, and whatever is wrong is an error that wraps
// [ErrMalformed], never a panic.
package wire
