package partition

// rtxPro5000Profiles are those of the MIG user guide's table 10. NVIDIA publishes no placements:
// these give each profile as many starts as the table gives it instances. The guide's list of GPUs
// says at most two instances; on a host, what the device reports takes precedence.
func rtxPro5000Profiles() []InstanceProfile {
	return []InstanceProfile{
		instanceProfile("4g.%dgb", 48, 0, 1, 4, 0),
		instanceProfile("4g.%dgb+gfx", 48, 32, 1, 4, 0),
		instanceProfile("2g.%dgb-me", 24, 66, 1, 2, 2),
		instanceProfile("1g.%dgb", 12, 14, 1, 1, 0),
		instanceProfile("1g.%dgb+me", 12, 21, 1, 1, 0),
		instanceProfile("1g.%dgb+gfx", 12, 47, 1, 1, 0),
		instanceProfile("1g.%dgb-me", 12, 67, 3, 1, 1, 2, 3),
	}
}

// rtxPro4500Profiles are those of a board with two slices. NVIDIA publishes no placements.
func rtxPro4500Profiles() []InstanceProfile {
	return []InstanceProfile{
		instanceProfile("2g.%dgb", 32, 5, 1, 2, 0),
		instanceProfile("1g.%dgb", 16, 14, 2, 1, 0, 1),
	}
}
