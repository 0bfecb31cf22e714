package jail

// systemSecrets are sockets outside /run through which a program could act
// outside the jail. Other files of the system are protected by their owner.
var systemSecrets = []string{
	"/var/run/docker.sock", "/var/snap/lxd/common/lxd/unix.socket", "/var/snap/lxd/common/lxd-user/unix.socket",
	"/var/lib/lxd/unix.socket", "/var/lib/incus/unix.socket",
}
