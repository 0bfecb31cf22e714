package outputs

import (
	"bytes"
	"encoding/json"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/base"
)

const (
	// maxCommands is how many commands of a step are read.
	maxCommands = 1024
	// maxText bounds a command's text that is read: in JSON a byte of it may have become a
	// character of three.
	maxText = 3 * base.OutputCommand
)

// encode makes a line. Texts and data that are too long are cut.
func encode(lead string, o base.CommandOutput) ([]byte, error) {
	if len(o.Command) > base.OutputCommand {
		o.Command = o.Command[:base.OutputCommand]
	}
	line, err := json.Marshal(cut(o))
	if err != nil {
		return nil, err
	}
	return append(append([]byte(lead), line...), '\n'), nil
}

// cut leaves out the middle of data that is too long.
func cut(o base.CommandOutput) base.CommandOutput {
	if len(o.Data) <= base.OutputHead+base.OutputTail {
		return o
	}
	short := append([]byte(nil), o.Data[:base.OutputHead]...)
	o.Data = append(short, o.Data[len(o.Data)-base.OutputTail:]...)
	o.LeftOut, o.Cut = o.Bytes-int64(len(o.Data)), base.OutputHead
	return o
}

// decode reads the lines of a file. It trusts nothing in them: what is none is left out.
func decode(b []byte) []base.CommandOutput {
	var list []base.CommandOutput
	for line := range bytes.Lines(b) {
		var o base.CommandOutput
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
func sound(o *base.CommandOutput) bool {
	n := int64(len(o.Data))
	return n <= base.OutputHead+base.OutputTail && len(o.Command) <= maxText &&
		o.Bytes >= n && o.LeftOut == o.Bytes-n && o.Cut >= 0 && int64(o.Cut) <= n && (o.LeftOut > 0 || o.Cut == 0)
}
