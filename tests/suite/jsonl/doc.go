// Package jsonl is a client of the STDIO API for tests. It finds the response
// to each request and the events of each type, whatever order they arrive in,
// and judges every message in both directions by the protocol's schemas.
package jsonl
