// Package configure has the commands that read and write whole configuration files, as the page
// does: 'sandbox config text' and 'sandbox config write'.
//
// A text is checked before it is written, as a file of its level and together with those of the
// other levels: what 'sandbox config check' refuses is not written. The file is then exchanged as
// package agents does it: a preview names just what would be done, a copy of the old text stays beside the
// file, and a rename puts the new one there. Comments stay, since the text is written as it came.
//
// Texts come from editors and, at the project's level, from whoever can write in the folder.
// They are data: nothing in them is executed, and a project's text may only tighten.
package configure
