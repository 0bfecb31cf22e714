// Package account works out whose rights the commands of a jail get, and what the mode bits of the
// host's files give them. Save for [Account.Lend] it only looks, and it has no state.
package account
