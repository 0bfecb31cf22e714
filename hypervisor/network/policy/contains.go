package policy

// Contains reports whether r covers everything that o covers: each protocol, address or
// name, and port. A name is not looked up, so a rule about addresses contains none about
// names.
func (r Rule) Contains(o Rule) bool {
	switch {
	case r.protocol != "" && r.protocol != o.protocol:
		return false
	case r.low != 0 && (o.low < r.low || o.high > r.high): // o.low is 0 for all ports
		return false
	case r.any:
		return true
	case o.any:
		return false
	case o.host && !r.host: // of two families
		return false
	case r.host && o.prefix.IsValid() && o.prefix.IsSingleIP() && r.holds(o.prefix.Addr()):
		return true
	case r.domain == "":
		return o.domain == "" && r.prefix.IsValid() && o.prefix.IsValid() && r.prefix.Bits() <= o.prefix.Bits() && r.prefix.Contains(o.prefix.Addr())
	case r.below && o.below && r.domain == o.domain:
		return true
	case !r.below:
		return !o.below && r.domain == o.domain
	}
	return r.names(o.domain)
}
