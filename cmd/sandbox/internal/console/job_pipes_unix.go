//go:build unix

package console

import (
	"errors"
	"os"
)

// GiveUpPipes puts the null device in the place of those of the files that are pipes or sockets: their other
// ends see the end then, although this process lives on.
func GiveUpPipes(files ...*os.File) (err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for _, f := range files {
		if IsPipe(f) {
			err = errors.Join(err, replace(int(null.Fd()), int(f.Fd())))
		}
	}
	return err
}
