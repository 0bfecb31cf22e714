// Package pod runs sessions in a network namespace of the test's own, as a pod has one: an address, a router behind which other
// machines are, a DNS server, and programs of the pod's own that listen on its loopback and at an abstract name.
//
//	out := inPod(t, s, "run", "--network", "pod", "--", "./probe", "tcp/10.77.0.1:80")
//
// The test program starts itself three times for that: as the other machines, in a namespace with one end of a cable; as the pod, with the other end, which
// starts the program; and in the session, as the command that tries what can be reached. Whatever it tries is hostile.
//
// TestKubePlay runs the pod that we ship, by podman and from an image of its own, and kills it.
package pod
