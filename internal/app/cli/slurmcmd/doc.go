// Package slurmcmd has the commands for Slurm: its configuration, and the features of a node.
package slurmcmd
