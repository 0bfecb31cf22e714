package store

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

const (
	// RestName is the file in a step directory that says which of its records still count.
	RestName = "rest"
	// maxRest bounds it, in bytes.
	maxRest = 64 << 20
)

// Rest says which records of a step an apply has left undone. A step directory with a rest is a step
// that changed only that.
type Rest struct {
	// Of is the step that was undone, but for this.
	Of format.StepID `json:"of"`
	// Binds are touched bindings, Objects are those whose content and metadata count.
	Binds   []RestBind     `json:"binds,omitempty"`
	Objects []format.ObjID `json:"objects,omitempty"`
}

// RestBind is one touched binding.
type RestBind struct {
	Dir  format.ObjID `json:"dir"`
	Name []byte       `json:"name"` // base64: any bytes survive
}

// WriteRest writes a rest to the file name in the directory behind dirfd.
func WriteRest(dirfd int, name string, r *Rest) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return WriteFile(dirfd, name, b)
}

// ReadRest reads the rest of the step directory behind dirfd; nil: all of its records count.
func ReadRest(dirfd int) (*Rest, error) {
	b, err := hostfs.ReadSmall(dirfd, RestName, maxRest)
	if errors.Is(err, posix.ENOENT) {
		return nil, nil
	}
	r := &Rest{}
	if err == nil {
		err = json.Unmarshal(b, r)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: rest: %w", format.ErrDamaged, err)
	}
	return r, nil
}

// ReadRecords reads the records of a step directory that count, with the inodes as the kernel names them now.
func ReadRecords(dir *StepDir) (*format.RecordSet, error) {
	rec, err := format.ReadJournal(dir.FD)
	if err != nil {
		return nil, err
	}
	if end := notedEnd(dir.FD); end != nil && end.Tick == rec.Step.Tick {
		rec.EndsAt(end.Bytes)
	}
	rec.Live(dir.Volumes)
	r, err := ReadRest(dir.FD)
	if err == nil && r != nil {
		r.only(rec)
	}
	return rec, err
}

// only takes out of rec what does not count. The other objects are only there to find things by: they are
// as the step's creations, of which nothing is recorded but where they are.
func (r *Rest) only(rec *format.RecordSet) {
	binds := make(map[format.RecordKey]bool, len(r.Binds))
	objects := make(map[format.ObjID]bool, len(r.Objects))
	for _, b := range r.Binds {
		binds[format.RecordKey{Dir: b.Dir, Name: string(b.Name)}] = true
	}
	for _, id := range r.Objects {
		objects[id] = true
	}
	for k, old := range rec.Bindings {
		if !binds[k] {
			delete(rec.Bindings, k)
		} else if old != format.NoObj {
			objects[old] = true
		}
	}
	for id, o := range rec.Objects {
		if objects[id] || id == format.RootObj {
			continue
		}
		other := *o
		other.Created = true
		rec.Objects[id] = &other
		delete(rec.Xattrs, id)
		delete(rec.Contents, id)
		delete(rec.Lost, id)
	}
	if !objects[format.RootObj] {
		delete(rec.Xattrs, format.RootObj)
	}
}
