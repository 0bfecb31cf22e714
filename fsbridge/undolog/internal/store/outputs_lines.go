package store

import (
	"bytes"
	"encoding/json"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

const (
	// maxCommands is how many commands of a step are read.
	maxCommands = 1024
	// maxText bounds a command's text that is read: in JSON a byte of it may have become a
	// character of three.
	maxText = 3 * format.OutputCommand
)

// encode makes a line. Texts and data that are too long are cut.
func encode(lead string, o format.CommandOutput) ([]byte, error) {
	if len(o.Command) > format.OutputCommand {
		o.Command = o.Command[:format.OutputCommand]
	}
	line, err := json.Marshal(cut(o))
	if err != nil {
		return nil, err
	}
	return append(append([]byte(lead), line...), '\n'), nil
}

// cut leaves out the middle of data that is too long.
func cut(o format.CommandOutput) format.CommandOutput {
	if len(o.Data) <= format.OutputHead+format.OutputTail {
		return o
	}
	short := append([]byte(nil), o.Data[:format.OutputHead]...)
	o.Data = append(short, o.Data[len(o.Data)-format.OutputTail:]...)
	o.LeftOut, o.Cut = o.Bytes-int64(len(o.Data)), format.OutputHead
	return o
}

// decode reads the lines of a file. It trusts nothing in them: what is none is left out.
func decode(b []byte) []format.CommandOutput {
	var list []format.CommandOutput
	for line := range bytes.Lines(b) {
		var o format.CommandOutput
		if len(list) == maxCommands {
			break
		}
		if json.Unmarshal(line, &o) == nil && sound(&o) {
			list = append(list, o)
		}
	}
	return list
}

// sound tells whether the numbers of a line fit its data.
func sound(o *format.CommandOutput) bool {
	n := int64(len(o.Data))
	return n <= format.OutputHead+format.OutputTail && len(o.Command) <= maxText &&
		o.Bytes >= n && o.LeftOut == o.Bytes-n && o.Cut >= 0 && int64(o.Cut) <= n && (o.LeftOut > 0 || o.Cut == 0)
}
