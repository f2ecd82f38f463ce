package source

// YAML parses a document in YAML or JSON. at returns the line of the file for a line of the text. Only
// the command line has a decoder, since its tables would take memory in the daemon.
type YAML func(file, text string, at func(line int) int) (*Node, *Problem)
