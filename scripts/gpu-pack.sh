#!/usr/bin/env bash
# Puts all that scripts/gpu-check.sh needs into one folder, for a machine with a
# GPU and without a network:
#   gpu-pack.sh [--runtime] [--parts SIZE] FOLDER
# --runtime adds CUDA's runtime libraries (cudart and cuBLAS 12) from Debian, 230 MB
#   to fetch, for machines that have the driver and nothing else.
# --parts also writes FOLDER.tar.gz.00 and so on, none larger than SIZE; there
#   cat FOLDER.tar.gz.* | tar xz
# UNTESTED ON HARDWARE: no GPU could be had when this was written.
set -euo pipefail
usage() { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }

runtime=false parts=""
while [ $# -gt 1 ]; do
	case "$1" in
	--runtime) runtime=true ;;
	--parts) parts="$2"; shift ;;
	*) usage ;;
	esac
	shift
done
case "${1:--}" in -*) usage ;; esac
mkdir -p "$1"
folder="$(cd "$1" && pwd)"
readonly folder
cd "$(dirname "$0")/.."

echo "building" >&2
mkdir -p "$folder/bin" "$folder/lib"
CGO_ENABLED=0 go build -o "$folder/bin/" ./cmd/firstframe ./shared/gguf/ggufwrite/modelgen
bash scripts/cuda.sh build "$folder/bin/firstframe-slotworker-cuda"
cp scripts/gpu-check.sh "$folder/"
cp testdata/models/storyteller-f16.gguf "$folder/"

echo "installing both engines" >&2
XDG_CACHE_HOME="$folder/cache" "$folder/bin/firstframe" engine install
XDG_CACHE_HOME="$folder/cache" "$folder/bin/firstframe" engine install --device cuda

# The engine's binding needs libffi, which a small system may lack.
ffi="$(ldconfig -p | sed -n 's/.*libffi\.so\.8 .*=> //p' | head -n 1)"
[ -n "$ffi" ] || { echo "libffi.so.8 is not installed here" >&2; exit 1; }
cp -L "$ffi" "$folder/lib/libffi.so.8"

if $runtime; then
	work="$(mktemp -d)"
	trap 'rm -rf "$work"' EXIT
	source scripts/nonfree.sh
	nonfree "$work" trixie
	echo "fetching CUDA's runtime libraries, 230 MB" >&2
	apt-get "${nonfree_apt[@]}" update
	(cd "$work" && apt-get "${nonfree_apt[@]}" download libcudart12 libcublas12 libcublaslt12)
	for package in "$work"/*.deb; do
		dpkg-deb --fsys-tarfile "$package" | tar -x -C "$work" --wildcards './usr/lib/x86_64-linux-gnu/*'
	done
	cp -a "$work"/usr/lib/x86_64-linux-gnu/*.so* "$folder/lib/"
fi

du -sh "$folder" >&2
if [ -n "$parts" ]; then
	tar -C "$(dirname "$folder")" -cz "$(basename "$folder")" | split -b "$parts" -d - "$folder.tar.gz."
	ls -l "$folder".tar.gz.* >&2
fi
echo "run $folder/gpu-check.sh on the machine with the GPU" >&2
