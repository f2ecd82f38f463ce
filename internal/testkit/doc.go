// Package testkit groups what only tests and developers use: the simulator, the end-to-end
// tests, deadlines that scale with the load, the rules for imports and the recorded
// surface. The programs in cmd that are installed must not import it; the simulator's own
// program does.
package testkit
