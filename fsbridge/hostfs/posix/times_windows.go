package posix

// epoch is the start of 1970 in Windows's count: steps of 100 ns since 1601.
const (
	epoch  = 116444736000000000
	second = 10_000_000
)

// moment translates Windows's count.
func moment(filetime int64) Timespec {
	filetime -= epoch
	t := Timespec{Sec: filetime / second, Nsec: filetime % second * 100}
	if t.Nsec < 0 {
		t.Sec, t.Nsec = t.Sec-1, t.Nsec+1e9
	}
	return t
}

// filetime is the reverse, rounded down. Windows has no moment before 1601 and takes 0 for "leave it".
func (t *Timespec) filetime() int64 {
	const last = 1<<63 - 1
	switch {
	case t.Sec < -epoch/second:
		return 1
	case t.Sec > (last-epoch)/second-1:
		return last - 1
	}
	return max(t.Sec*second+t.Nsec/100+epoch, 1)
}
