// Package account works out whose rights the commands of a jail get, and what the mode bits of the
// host's files give them. It only looks, and has no state.
package account
