package escape

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// attack is the program inside. Its status is 0 if it got what it wanted.
func attack(name string, args []string) int {
	err := fmt.Errorf("unknown attack %q", name)
	if f := attacks[name]; f != nil {
		err = f(args)
	}
	if err != nil {
		fmt.Println(name+":", err)
		return 1
	}
	return 0
}

var attacks = map[string]func(args []string) error{"unlink": unlinkOnThread}

// unlinkOnThread unlinks on a thread that is not the first one. Upon a line of
// input that thread gets the named signals.
func unlinkOnThread(args []string) error {
	signals := make([]syscall.Signal, 0, len(args))
	for _, name := range args[1:] {
		signals = append(signals, unix.SignalNum("SIG"+name))
	}
	caught := make(chan os.Signal, 10)
	signal.Notify(caught, syscall.SIGUSR1)
	tid, done := make(chan int), make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() { // the next one is another
			go func() { runtime.LockOSThread(); tid <- unix.Gettid(); done <- unix.Unlink(args[0]) }()
			select {}
		}
		tid <- unix.Gettid()
		done <- unix.Unlink(args[0])
	}()
	thread := <-tid
	go func() {
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
			return
		}
		for _, s := range signals {
			_ = unix.Tgkill(os.Getpid(), thread, s)
		}
	}()
	return <-done
}
