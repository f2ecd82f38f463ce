// Package rule has the rules that values of a configuration follow: their type, their range, and
// what a value of dcm's vocabulary is, such as a unit name, a selector of GPUs or a MIG geometry.
// A [Checker] collects what the rules find.
//
// It knows no key of a document. It must not import the packages that do: config, kubernetes,
// importer and selection.
package rule
