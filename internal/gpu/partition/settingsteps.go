package partition

// steps returns the step for a setting that differs between now and what is wanted. had are the settings before the
// plan.
func (s setting) steps(gpu Address, had, now, want Settings) Steps {
	from, to := *s.at(&now), *s.at(&want)
	if to == "" || to == from {
		return nil
	}
	return Steps{{Kind: s.kind, GPU: gpu, From: from, To: to, Again: to == *s.at(&had)}}
}

// KeepSettings returns the steps that restore the settings of a GPU after a switch of its compute mode.
func KeepSettings(gpu Address, before, after Settings) (out Steps) {
	for _, one := range settings() {
		out = append(out, one.steps(gpu, before, after, before.kept())...)
	}
	return out
}
