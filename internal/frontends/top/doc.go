// Package top shows the usage of the partitions, repeatedly on a terminal or as text. It
// gets a function that queries the usage, and must not import devices or units.
//
// It uses no library for terminals: reading keys and writing lines is less code than such a
// library would add to the dcm command.
package top
