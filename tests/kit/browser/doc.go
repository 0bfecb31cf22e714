// Package browser starts a headless Chromium for tests.
package browser
