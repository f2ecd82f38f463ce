package config

// selection is the form of [SelectionFile] in [Paths].Runtime. It holds as long as
// the files that stay select what they selected when it was made.
func selection() rule {
	return fixed(map[string]rule{
		"version": scalar("the integer 1", version),
		"profile": scalar("a string", selectable),
		"instead": scalar("a string", selectable),
	}, nil)
}

func readSelection(c *checker, l layer) *node {
	root, broken := parseTOML(l.file, l.text)
	if broken != nil {
		c.problems = append(c.problems, *broken)
		return nil
	}
	c.root = selection()
	c.root.judge(c, "", root)
	return root
}
