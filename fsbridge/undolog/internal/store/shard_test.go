package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// TestShards adopts where shards are needed in turn, skipped, and needed again: each
// object gets a place in its own, and none is left that nobody needed.
func TestShards(t *testing.T) {
	path := t.TempDir()
	fd, err := posix.Open(path, posix.O_RDONLY|posix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	d := NewStepDir(fd)
	put := func(obj format.ObjID) {
		t.Helper()
		err := d.WithBlobDir(obj, true, func(fd int) error { return hostfs.MkdirAt(fd, BlobName(obj), 0o700) })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(path, "blobs", ShardName(obj), BlobName(obj))); err != nil {
			t.Fatal(err)
		}
	}
	for obj := format.ObjID(1); obj < 3*blobFanOut-1; obj++ {
		put(obj)
	}
	put(7*blobFanOut - 1) // 3 was being made
	put(9 * blobFanOut)   // 7 was
	put(9*blobFanOut + 1)
	put(blobFanOut * 5)
	put(9*blobFanOut - 1) // 9 is there already
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(path, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if want := []string{"0", "1", "2", "5", "6", "8", "9"}; !slices.Equal(got, want) {
		t.Errorf("shards %v, want %v", got, want)
	}
}

// TestShardInTheWay has something else where a shard is made in advance.
func TestShardInTheWay(t *testing.T) {
	path := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(path, "blobs"), 0o700), os.WriteFile(filepath.Join(path, "blobs", "1"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	fd, err := posix.Open(path, posix.O_RDONLY|posix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	d := NewStepDir(fd)
	defer d.Close()
	nothing := func(int) error { return nil }
	if err := d.WithBlobDir(blobFanOut-1, true, nothing); err != nil {
		t.Fatal(err)
	}
	if err := d.WithBlobDir(blobFanOut, true, nothing); err == nil {
		t.Error("a file was taken for a shard")
	}
	if err := d.WithBlobDir(blobFanOut-1, true, nothing); err != nil {
		t.Errorf("after that: %v", err)
	}
}
