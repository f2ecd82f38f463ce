// Package frontends groups what shows the state of a node and takes requests: the status,
// which is gathered once, and its forms on D-Bus, as metrics, for Slurm, for agents, as a
// support bundle and on the terminal. These packages must not import app.
// Only status/gather may import leases: it reads which partitions are allocated. A frontend
// imports the status and no other frontend but admission and varlink.
package frontends
