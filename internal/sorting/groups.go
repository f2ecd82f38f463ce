package sorting

// Groups returns the elements with equal keys together, in the order of the list.
func Groups[E any, K comparable](list []E, key func(E) K) [][]E {
	var out [][]E
	at := make(map[K]int)
	for _, e := range list {
		k := key(e)
		i, known := at[k]
		if !known {
			i = len(out)
			at[k], out = i, append(out, nil)
		}
		out[i] = append(out[i], e)
	}
	return out
}
