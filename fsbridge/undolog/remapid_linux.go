package undolog

import "github.com/codeagent/sandbox/fsbridge/hostfs"

// nowID is the number that an inode of the step seq has today.
func (l *Log) nowID(seq uint64, id hostfs.ID) hostfs.ID { return id }
