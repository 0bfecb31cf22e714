// Package inside holds what programs that drive a session see and do inside, in real sessions of each isolation: files as commands see them (api.Viewer), and commands that
// outlive their connection (api.Commander). The test program is the supervisor and the guest's inner program in one.
//
// For example, a file is written to the jail's own /tmp, a command reads it there, and the host has none of it.
package inside
