// Package engines has what engines for containers (podman, buildah) are given in a jail, where there is one user
// id and no control group of their own: configuration files, programs that stand in front of the real ones, and the variables that lead
// to both. It is text only: the jail puts the files in place.
package engines
