package undolog

import "errors"

var errUnfinished = errors.New("undolog: not implemented")
