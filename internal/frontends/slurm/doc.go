// Package slurm has the words of Slurm that dcm speaks: the names of features, the lines
// of Slurm's configuration files, and a node's record as scontrol(1) shows and changes
// it. It knows no GPU, and keeps nothing: what a node has, and what it is to have, is
// slurmctld's to remember.
//
// The facts are those of Slurm 24.11: helpers.conf(5), gres.conf(5), scontrol(1), and the
// plugin node_features/helpers.
package slurm
