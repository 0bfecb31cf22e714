// Package inside is `sandbox run` within a sandbox: it makes no second one. The
// session outside opens a step, the command runs as a child of this process, and the
// step ends with it. The session is asked at the socket that
// [hypervisor.StepsVariable] names; nothing but that can be asked there.
package inside
