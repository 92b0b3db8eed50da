// Package pages keeps KV state of prompt prefixes for reuse: context pages. It
// knows no engine. It names pages (chained hashes under one identity and salt),
// cuts them out of the engine's sequence-state blob and joins them into one
// again, finds the longest run of pages that a prompt may reuse, and keeps them
// in two tiers: blocks of host memory and one file a page in a directory.
//
// # What is promised
//
// A lookup fails closed. A page is used only when every field of its key is
// equal, its token ids were compared one by one, the tokens before it have the
// same second digest, and, coming from disk, the checksum over its header and
// payload is right. Anything else is a miss with a named reason.
//
// # Loss
//
// Writing to disk happens behind the requests. What is still queued when the
// process dies is lost: at most Config.QueuePages pages, those stored last.
// A page whose file was renamed into place survives the death of the process.
// Files are not synced to the medium: after a power cut a page may be missing or
// damaged, and a damaged one is found by its checksum and set aside.
//
// # Costs
//
// Measured on two cores for 512 tokens of a model with 24 KiB of KV state a token,
// 12 MiB in 8 pages: to look up 12 µs, to cut and keep 2.6 ms, to join 0.9 ms, to
// load from files that the system has cached and to check them 2.3 ms, to ask the
// directory in vain 30 µs. A lookup takes the same time among 100 and among
// 100,000 pages. Hashing a prompt of 100,000 tokens takes 1.3 ms. Files are guarded
// by xxHash64 at 19 GB/s; SHA-256 and CRC-64 manage 1.6 GB/s and would take longer
// than the reading.
//
// # Threads
//
//	goroutine  owns                                  ends
//	callers    their Prompt and Plan                 with the request
//	writer     the write queue's head, all changes   Close
//	           of the directory
//	scanner    nothing; offers headers to the index  after one pass, or Close
//	grower     the memory slab being made ready      Close
//	loaders    the blocks of one Load                with that Load
//
// The index, the blocks and all counts are guarded by one mutex, which is never
// held over a system call or a copy of page data.
package pages
