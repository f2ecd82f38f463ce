// Package top shows how much of the partitions is in use, again and again, on a
// terminal or as text. It is handed who looks, and knows neither devices nor units.
//
// It is in dcm's own program: what it needs of a terminal is to be told of keys and to
// write lines, which is less than any library for it would add.
package top
