// Package numbers gives values numbers that a hostile client may send back: a number
// leads to its value as long as it is in the table, and to nothing afterwards, even if
// the slot has another value by then. Looking up takes no lock.
//
// # Locks
//
// Table.mu alone, while a value is put or removed.
package numbers
