// Package shared is the contract between the processes of firstframe: what an
// identity is, which phases a request passes, which errors exist, and the two
// interfaces, Worker and Frontend, that a process implements or calls. A client
// over plugin RPC and the implementation behind it satisfy the same interface,
// so calling code cannot tell them apart.
//
// The package holds no policy and starts no goroutine.
package shared
