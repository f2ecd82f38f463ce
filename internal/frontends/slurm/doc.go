// Package slurm has what dcm needs of Slurm: the names of features, the lines of Slurm's
// configuration files, and a node's record as scontrol(1) shows and changes it. It must not
// know GPUs and keeps no state: slurmctld's record says which features a node has and which
// it is to get.
//
// The facts are from Slurm 24.11: helpers.conf(5), gres.conf(5), scontrol(1), and the plugin
// node_features/helpers.
package slurm
