// Package examples finds the examples in dcm's documents: the commands and the configurations that
// a reader copies from the README files, the manual pages, the help texts and the template of
// dcm.toml. It does not run them: the tests of the command line and the end-to-end tests do.
//
// An example that cannot run as printed on a node in its default state has marks, one a line. A
// mark is a comment of the document that begins with "example:". It stands before the block, or
// in a manual page before the line of the block that it is about. After "section" it is a mark of each example of its section:
//
//	.\" example: exits 75                         manual page
//	<!-- example: section run by TestWalk -->     Markdown
//
// [Mark] lists them.
package examples
