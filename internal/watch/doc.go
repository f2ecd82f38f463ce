// Package watch turns changes in directories into one "something changed"
// signal. It knows how directories come, go and are swapped; it does not know
// what the files in them mean, nor who wants to hear of it.
package watch
