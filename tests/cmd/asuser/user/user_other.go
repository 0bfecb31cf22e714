//go:build !linux

package user

import "errors"

// Name of the user, and the variable that its programs find set.
const (
	Name    = "sandbox-test"
	PassEnv = "SANDBOX_TEST_USER_PASS"
)

// Run is for Linux.
func Run(string, ...string) (int, error) { return 0, errors.ErrUnsupported }

// CombinedOutput is for Linux.
func CombinedOutput(string, ...string) ([]byte, error) { return nil, errors.ErrUnsupported }

// IDs is for Linux.
func IDs() (uid, gid uint32, err error) { return 0, 0, errors.ErrUnsupported }
