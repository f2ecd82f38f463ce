// Package watch turns changes outside of dcm into one "something changed" signal:
// in directories, and among the devices of the kernel. It knows how directories
// come, go and are swapped, and how the kernel tells of devices; it does not know
// what the files mean, nor who wants to hear of it.
package watch
