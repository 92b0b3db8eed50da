// Package hostpool reserves, accounts and frees blocks of page-locked host
// memory under a budget. It does not lock memory itself: it is given functions
// that do, the driver's for a CUDA device or the system's for the CPU.
//
// Bytes are charged before they are allocated and credited only after the
// function that frees them has succeeded: what could not be freed stays charged,
// because it still is in somebody's memory. Freed blocks may be kept for the next
// caller of their size, since page-locking is dear; they are given back when the
// budget is needed for another size, and by Close.
package hostpool
