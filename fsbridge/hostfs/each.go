package hostfs

import (
	"runtime"
	"sync"
)

// Workers is how many goroutines work on a directory tree at once: two at least,
// because one waits for the kernel while the other works, and four at most.
func Workers() int { return min(max(2, runtime.GOMAXPROCS(0)), 4) }

// Each calls f for 0 to n-1 on up to [Workers] goroutines, and returns when all
// calls have returned: the kernel serves several directories side by side.
func Each(n int, f func(i int)) {
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	var wg sync.WaitGroup
	for range min(Workers(), n) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	wg.Wait()
}
