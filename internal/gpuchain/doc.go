// Package gpuchain has tests of a slot on a GPU from the supervisor down to the
// driver: real worker processes with the CUDA device, over a stand-in for the
// driver's library (testdata/cuda) that can be told to fail. The engine computes on
// the CPU from the device's page-locked memory, as there is no GPU. They are built
// with the cuda tag: scripts/cuda.sh test runs them.
package gpuchain
