package api

// OrEmpty keeps null out of JSON: it returns an empty list for nil.
func OrEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
