// Package kept has the commands of 'sandbox answers': they list what a person has
// decided beyond a session, and forget it. Names in answers come from programs inside:
// they are printed quoted.
//
// They are for one goroutine.
package kept
