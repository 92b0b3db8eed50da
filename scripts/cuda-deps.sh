#!/usr/bin/env bash
# Fetches what the CUDA worker needs to compile, the header cuda.h, into the
# user's cache, and prints the folder it is in. Debian's package of it has 770 MB;
# the header stands at its front, so that half a megabyte is enough: the first
# part of the package is fetched, unpacked as far as it goes, and the header is
# checked against the digest that is written here.
#
# The package comes from the machine's own Debian mirror. Who has a CUDA toolkit
# of version 11.8 or 12 sets CUDA_HOME to it, and nothing is fetched.
set -euo pipefail

readonly suite=bookworm package=nvidia-cuda-dev version=11.8.89
readonly digest=55639151a971a10c28d627a98dcd406c6320a5b4e5b67dd9d229056ed5c8e045
readonly front=$((512 * 1024)) # bytes of the package; the header ends within the first 256 KiB

if [ -n "${CUDA_HOME:-}" ]; then
	[ -f "$CUDA_HOME/include/cuda.h" ] || { echo "there is no include/cuda.h in CUDA_HOME=$CUDA_HOME" >&2; exit 1; }
	echo "using the CUDA toolkit in $CUDA_HOME" >&2
	echo "$CUDA_HOME/include"
	exit
fi

readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/firstframe-cuda/$version"
readonly header="$cache/include/cuda.h"

intact() { echo "$digest  $1" | sha256sum --check --status -; }

if [ -f "$header" ] && intact "$header"; then
	echo "cuda.h of CUDA $version is in the cache: $header" >&2
	echo "$cache/include"
	exit
fi

for tool in apt-get curl dpkg-deb; do
	command -v "$tool" >/dev/null || { echo "fetching cuda.h takes $tool; or set CUDA_HOME to a CUDA toolkit" >&2; exit 1; }
done
mkdir -p "$cache/include"
work="$(mktemp -d "$cache/fetch.XXXXXX")" # where the header goes in one step at the end
readonly work
trap 'rm -rf "$work"' EXIT

source "$(dirname "$0")/nonfree.sh"
nonfree "$work" "$suite" || { echo "set CUDA_HOME to a CUDA toolkit" >&2; exit 1; }
echo "fetching the package list of Debian $suite non-free (300 KB)" >&2
apt-get "${nonfree_apt[@]}" update >&2
url="$(apt-get "${nonfree_apt[@]}" download --print-uris "$package" | cut -d "'" -f 2)"
[ -n "$url" ] || { echo "Debian $suite has no package $package" >&2; exit 1; }

echo "fetching the first $((front / 1024)) KiB of $(basename "$url")" >&2
curl --fail --silent --show-error --location --retry 3 --range "0-$((front - 1))" "$url" 2>"$work/curl" |
	head -c "$front" >"$work/front.deb" || true # without ranges curl is cut off by head
# The package ends too early for both programs; whether the header is whole the digest says.
dpkg-deb --fsys-tarfile "$work/front.deb" 2>/dev/null |
	tar -x -C "$work" --occurrence=1 ./usr/include/cuda.h 2>/dev/null || true
if ! [ -f "$work/usr/include/cuda.h" ] || ! intact "$work/usr/include/cuda.h"; then
	cat "$work/curl" >&2
	echo "cuda.h in $package is not the one that is expected ($digest)" >&2
	exit 1
fi
mv "$work/usr/include/cuda.h" "$header"
echo "cuda.h of CUDA $version is now in the cache: $header" >&2
echo "$cache/include"
