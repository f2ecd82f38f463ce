// Package lease gives partitions to those who use them, and knows who has which.
//
// What it knows is what PID 1 knows: a lease is a scope in dcm.slice, its partitions
// are what the scope's DeviceAllow= names, and it lasts for as long as the scope does.
// There is nothing beside that to lose, to repair or to disagree with: after a kill of
// everything but PID 1 the same question has the same answer.
//
// The package refuses to know D-Bus, how partitions are found, and who may ask.
package lease
