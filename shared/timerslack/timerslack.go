// Package timerslack makes a process content with coarse timers.
//
// While anything runs, Go's monitor thread sleeps for 20 µs at a time, and with the
// kernel's usual slack of 50 µs it wakes up ten thousand times a second. With
// three processes that pass a request on, on few cores, each of those wakes gets in the
// way of the thread that has the request.
package timerslack
