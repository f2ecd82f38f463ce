// Package top shows the usage of the partitions, repeatedly on a terminal or as text. It
// gets a function that queries the usage, and must not import devices or units.
//
// It uses no terminal library, since it only reads keys and writes lines.
package top
