// Package coderules tests what holds for the functions of all packages.
// It has no code outside its tests.
package coderules
