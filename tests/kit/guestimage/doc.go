// Package guestimage gives tests what a virtual machine boots: the image that
// tests/run.sh has built, or one that is built and kept in the user's cache.
package guestimage
