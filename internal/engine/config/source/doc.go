// Package source reads configuration files as documents, and writes them.
//
// A document in TOML, JSON or YAML becomes a [Node] in which every value has its file and line.
// What is wrong with it is a [Problem]. The package refuses files that a user other than root
// could have written or replaced. It changes one key of a TOML text ([SetKey]) and replaces a file
// atomically ([ReplaceFile]).
//
// It knows no key of a configuration and no GPU. It must not import another package of
// internal/engine.
package source
