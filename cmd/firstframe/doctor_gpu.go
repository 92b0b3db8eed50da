package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/firstframe/firstframe/slotworker/enginelib"
	"github.com/firstframe/firstframe/supervisor"
)

// gpuChecks say what slots on cuda:N need and whether it is there. They look at
// files only: this program loads none of it.
func gpuChecks(ctx context.Context) []check {
	worker := check{Name: "CUDA worker"}
	if path, err := supervisor.FindCUDAWorker(""); err != nil {
		worker.Detail = "slots on cuda:N need one: " + err.Error()
	} else {
		worker.OK, worker.Detail = true, path
	}
	return []check{worker, driverCheck(libraryFolders(), "/etc/ld.so.cache"), cudaEngineCheck(ctx)}
}

// driverCheck looks for the library that comes with NVIDIA's driver.
func driverCheck(folders []string, cache string) check {
	c := check{Name: "NVIDIA driver"}
	path, found := findLibrary("libcuda.so.1", folders, cache)
	if !found {
		c.Detail = "libcuda.so.1 is not among the system's libraries: no slot can run on a GPU"
		return c
	}
	c.OK, c.Detail = true, path
	if text, err := os.ReadFile("/proc/driver/nvidia/version"); err == nil {
		version, _, _ := strings.Cut(string(text), "\n")
		c.Detail += ", " + version
	} else {
		c.Detail += "; the kernel's part of it is not loaded"
	}
	return c
}

// cudaEngineCheck looks for the engine's CUDA backend and for the libraries of
// CUDA's runtime that this needs and does not bring along.
func cudaEngineCheck(ctx context.Context) check {
	c := check{Name: "CUDA engine"}
	dir, err := enginelib.LocateCUDA(ctx)
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	for _, major := range []string{"13", "12"} {
		_, runtime := findLibrary("libcudart.so."+major, libraryFolders(), "/etc/ld.so.cache")
		_, blas := findLibrary("libcublas.so."+major, libraryFolders(), "/etc/ld.so.cache")
		if runtime && blas {
			c.OK, c.Detail = true, fmt.Sprintf("in %s, with CUDA's runtime libraries of version %s; untested on hardware", dir, major)
			return c
		}
	}
	c.Detail = fmt.Sprintf("in %s, but CUDA's runtime libraries (libcudart, libcublas) of version 13 or 12 are missing", dir)
	return c
}

func libraryFolders() []string {
	return append(filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")),
		"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib",
		"/usr/local/nvidia/lib64", "/usr/local/cuda/lib64", "/usr/lib/wsl/lib")
}

// findLibrary looks where the dynamic loader does: in folders, and in the cache of
// all others.
func findLibrary(name string, folders []string, cache string) (string, bool) {
	for _, dir := range folders {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, true
		}
	}
	text, err := os.ReadFile(cache)
	if err != nil {
		return "", false
	}
	for known := range bytes.SplitSeq(text, []byte{0}) {
		if path := string(known); filepath.IsAbs(path) && filepath.Base(path) == name {
			return path, true
		}
	}
	return "", false
}
