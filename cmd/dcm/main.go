// Command dcm keeps a server's GPUs in the partition profile its administrator
// selected.
package main

func main() {}
