package console

import (
	"errors"
	"os"
)

// GiveUpPipes closes those of the files that are pipes: their other ends see the end then, although this process lives on.
func GiveUpPipes(files ...*os.File) (err error) {
	for _, f := range files {
		if IsPipe(f) {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}
