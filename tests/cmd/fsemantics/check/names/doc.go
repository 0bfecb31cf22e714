// Package names has the checks about names: opening, paths, directories, links.
package names
