#!/usr/bin/env bash
# Builds the worker for CUDA devices, or runs its tests without a GPU.
#   cuda.sh build [FILE]   default bin/firstframe-slotworker-cuda
#   cuda.sh test [ARGS]    go test of what uses CUDA with a stand-in for the driver
#   cuda.sh vet            go vet of the worker with the tag
#   cuda.sh standin        only that stand-in; prints its folder
# Both link against the stand-in, testdata/cuda, which has every symbol of the
# driver that gorgonia.org/cu names. What is built looks for libcuda.so.1 where it
# runs, and there finds the machine's driver.
set -euo pipefail
cd "$(dirname "$0")/.."

standin() {
	local dir="$PWD/bin/cuda-standin"
	mkdir -p "$dir"
	"${CC:-gcc}" -std=gnu11 -Wall -Wextra -Werror -O1 -g -fPIC -shared -I "$include" -Wl,-soname,libcuda.so.1 \
		-o "$dir/libcuda.so.1.new" testdata/cuda/*.c -ldl -lpthread
	mv "$dir/libcuda.so.1.new" "$dir/libcuda.so.1" # a process that has the old one mapped keeps it
	ln -sf libcuda.so.1 "$dir/libcuda.so"
	echo "$dir"
}

what="${1:-}"
[ $# -eq 0 ] || shift
case "$what" in build | test | vet | standin) ;; *)
	sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac

include="$(bash scripts/cuda-deps.sh)"
library="$(standin)"
export CGO_ENABLED=1 CGO_CFLAGS="-O2 -g '-I$include'" CGO_LDFLAGS="'-L$library'"
case "$what" in
build) go build -tags cuda -o "${1:-bin/firstframe-slotworker-cuda}" ./cmd/slotworker ;;
test) LD_LIBRARY_PATH="$library" go test -tags cuda "$@" ./slotworker/cuda/... ./internal/gpuchain ;;
vet) go vet -tags cuda ./slotworker/... ./internal/gpuchain ./cmd/slotworker ;;
standin) echo "$library" ;;
esac
