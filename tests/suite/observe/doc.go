// Package observe tests what the program tells about itself: the log (OB-01 to
// OB-05) and what it exports when the OTEL_* variables ask for it. The program
// is the real one.
package observe
