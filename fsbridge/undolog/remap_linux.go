package undolog

// remapCount is the number of entries of the file "remap".
func (l *Log) remapCount() uint64 { return 0 }
