// Package workers takes requests from a transport and has them performed, each
// worker one at a time.
//
// One worker takes and performs, so that a request wakes nobody but that one, and
// that one is where the last request ran. A second one, ready to take the next
// request meanwhile, costs more than most requests do. The worker gets company in
// three cases: somebody has to decide about its request ([Pool.HeldUp]), its request
// takes longer than Options.StallAfter, or there was always a next request for
// 250 microseconds. A worker that has been replaced, or that finds nothing to do
// beside another, ends. So a request that is held for minutes holds up no other.
//
// A transport implements [Source]: how to take a request, to wait for one, and to
// perform it. The package trusts it to wait nowhere else.
//
// # Locks
//
// Pool.mu alone, which is never held while a request is taken or performed;
// Source.Another and Source.Leave are called under it.
package workers
