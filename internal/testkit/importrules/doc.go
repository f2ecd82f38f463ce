// Package importrules tests which packages of dcm import which, and what a program links.
// It has no code outside its tests.
package importrules
