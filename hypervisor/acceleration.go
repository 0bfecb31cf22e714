package hypervisor

import "fmt"

// Acceleration is what runs the processors of a virtual machine, other than QEMU itself: a word of vm.acceleration, as QEMU calls it.
type Acceleration struct {
	// Word, System (of runtime.GOOS) and what people call both.
	Word, System, Name, On string
}

// Accelerations are all, each with the one system that has it.
func Accelerations() []Acceleration {
	return []Acceleration{{"kvm", "linux", "KVM", "Linux"}, {"hvf", "darwin", "HVF", "macOS"}, {"whpx", "windows", "WHPX", "Windows"}}
}

// The words of vm.acceleration that each system has.
const (
	// Accelerate: by what the system has where that works, else emulated.
	Accelerate = "auto"
	// Emulate: by QEMU itself, which is slow.
	Emulate = "tcg"
)

// AccelerationWords are those of vm.acceleration.
func AccelerationWords() []string {
	words := []string{Accelerate}
	for _, a := range Accelerations() {
		words = append(words, a.Word)
	}
	return append(words, Emulate)
}

// OwnAcceleration is the word of the system that runtime.GOOS names; empty: it has none.
func OwnAcceleration(system string) string {
	for _, a := range Accelerations() {
		if a.System == system {
			return a.Word
		}
	}
	return ""
}

// CheckAcceleration says why a machine cannot be asked for that word on a system, or nil. Whether it works there is not looked at.
func CheckAcceleration(word, system string) error {
	own := OwnAcceleration(system)
	there := Accelerate
	if own != "" {
		there += ", " + own
	}
	there += " and " + Emulate
	switch {
	case word == Accelerate || word == Emulate || own != "" && word == own:
		return nil
	}
	for _, a := range Accelerations() {
		if a.Word == word {
			return fmt.Errorf("vm.acceleration %s is what %s has (%s); here there is %s: %w", word, a.On, a.Name, there, ErrUnavailable)
		}
	}
	return fmt.Errorf("there is no vm.acceleration %q; here there is %s", word, there)
}
