// Package observe tests what the program tells about itself: the log (OB-01 to
// OB-05). The program is the real one.
package observe
