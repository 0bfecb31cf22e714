// Package page is the page of 'sandbox ui': static files that the program embeds. They are plain
// JavaScript modules and style sheets, as they are written: nothing is bundled, and
// nothing is loaded from elsewhere.
package page
