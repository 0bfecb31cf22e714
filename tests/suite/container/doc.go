// Package container runs the program as people do in a container: as an ordinary user and as
// root, with the profile that container engines give by default, where no namespaces can be
// made. It needs runc and root.
package container
