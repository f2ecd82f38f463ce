// Package slurm contains the parts of Slurm that dcm uses: the names of features, lines for Slurm's
// configuration files, and slurmctld's record of a node, which scontrol(1) shows and changes. It must
// not know GPUs. It keeps no state: slurmctld's record contains the available and the active features.
//
// The facts are from Slurm 24.11: helpers.conf(5), gres.conf(5), scontrol(1), and the plugin
// node_features/helpers.
package slurm
