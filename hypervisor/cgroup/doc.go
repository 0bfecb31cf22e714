// Package cgroup limits what the processes of a guest take together, by the kernel's control
// groups: of version 2 where a controller is there, else of version 1. It looks at each controller by
// itself, because machines mix the two.
//
// A [Group] is made below this process's own group, or below the nearest one above it that this user may
// change and whose controllers its children may use (systemd delegates such groups to users). On version 2 a controller is
// switched on for the children of a group if the kernel allows it.
//
// Groups are called sandbox-PID-START-N, after the process that made them. If it was killed, the next [Make]
// removes them. A Group is for one goroutine at a time, but for Usage, which is
// safe for concurrent use. The kernel is trusted.
package cgroup
