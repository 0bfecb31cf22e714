package posix

// Lock is a record lock. Length 0 is to the end.
type Lock struct {
	Type   int16 // F_RDLCK, F_WRLCK, F_UNLCK
	Start  int64
	Length int64
	PID    int32
}
