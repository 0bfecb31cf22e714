package qemu

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"
)

// TestW14KVMRunsCode: KVM is believed only if a machine gets to the end of its program: not if it goes on for ever, halts, or does not know an instruction.
func TestW14KVMRunsCode(t *testing.T) {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil { // many machines have none
		if why := kvm(); why == nil || errors.Is(err, fs.ErrNotExist) && !strings.Contains(why.Error(), "there is no /dev/kvm") {
			t.Errorf("without KVM: %v", why)
		}
		return
	}
	defer f.Close()
	for name, program := range map[string][]byte{
		"for ever":               {0xeb, 0xfe}, // jmp to itself
		"halts":                  {0xf4},
		"no such instruction":    {0x0f, 0x0b},
		"another port":           {0xb0, answer, 0xe6, probePort + 1},
		"the port, another word": {0xb0, answer + 1, 0xe6, probePort},
	} {
		limit := time.Minute
		if name == "for ever" {
			limit = 20 * time.Millisecond
		}
		if err := runs(f, program, limit); err == nil {
			t.Errorf("%s: believed", name)
		}
	}
	t.Log("this machine's:", runsCode(f, trialTime))
}

// TestW14KVMExit: how the processor left its program.
func TestW14KVMExit(t *testing.T) {
	exit := func(reason uint32, port uint16, direction, word byte, at uint64) error {
		state := make([]byte, 4096)
		binary.NativeEndian.PutUint32(state[offExit:], reason)
		state[offIO] = direction
		binary.NativeEndian.PutUint16(state[offIO+2:], port)
		binary.NativeEndian.PutUint64(state[offIO+8:], at)
		state[100] = word
		return (&kvmTrial{state: state}).result()
	}
	if err := exit(kvmExitIO, probePort, 1, answer, 100); err != nil {
		t.Errorf("the right end: %v", err)
	}
	for name, err := range map[string]error{
		"internal error": exit(17, 0, 0, 0, 0), "port": exit(kvmExitIO, 0x80, 1, answer, 100), "read": exit(kvmExitIO, probePort, 0, answer, 100),
		"word": exit(kvmExitIO, probePort, 1, 0, 100), "place": exit(kvmExitIO, probePort, 1, answer, 1<<40),
	} {
		if err == nil {
			t.Errorf("%s: believed", name)
		}
	}
}
