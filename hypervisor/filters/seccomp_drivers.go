package filters

// masked are requests to a driver's devices: those whose number, but for the bits that mask has not, is this one. A request's number has the driver's letter in
// the second byte.
type masked struct{ mask, number uint32 }

// letter are all requests with this letter.
func letter(c uint32) masked { return masked{0xff00, c << 8} }

// drivers are those whose devices know more requests than the list has, by the names that /proc/devices and /proc/misc give them. A filter sees a number and not
// which device it goes to, so these reach every file that a program has open: each family is of no other driver's.
var drivers = []struct {
	name     string
	why      string
	requests []masked
}{
	{"drm", "a graphics card, as Mesa uses it", []masked{letter('d')}},
	{"kfd", "an AMD graphics card's processors", []masked{letter('K')}},
	{"nvidia", "an NVIDIA graphics card", []masked{letter('F')}},
	{"nvidia-frontend", "an NVIDIA graphics card, named so by older drivers", []masked{letter('F')}},
	{"nvidia-modeset", "an NVIDIA graphics card's screens", []masked{letter('m')}},
	{"nvidia-uvm", "an NVIDIA graphics card's memory: its numbers have no letter", []masked{{0xffffff00, 0}, {0xfffffffc, 0x30000000}}},
	{"kvm", "virtual machines", []masked{letter(0xae)}},
	{"tun", "a network card that a program serves", []masked{{0xffc0, 0x54c0}}},
	{"fuse", "a file system that a program serves", []masked{letter(0xe5)}},
	{"video4linux", "a camera", []masked{letter('V')}},
	{"media", "a camera's parts", []masked{letter('|')}},
	{"alsa", "a sound card", []masked{letter('A'), letter('U'), letter('W')}},
	{"usb_device", "a device on the USB", []masked{letter('U')}},
	{"gpiochip", "pins of a board", []masked{letter(0xb4)}},
	{"spi", "a bus of a board", []masked{letter('k')}},
	{"i2c", "a bus of a board", []masked{letter(0x07)}},
}

// Drivers are the names of drivers for whose devices [Settings].Drivers allows more.
func Drivers() (names []string) {
	for _, d := range drivers {
		names = append(names, d.name)
	}
	return names
}
