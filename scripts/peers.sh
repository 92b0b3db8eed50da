#!/usr/bin/env bash
# Brings llama-server to a Debian machine whose own suite is too old for it, to be measured against with
# `firstframe bench --against`. Packages come from Debian's newest suite through a private apt configuration and are
# unpacked, with the loader and the libraries that they need, below one folder. Nothing is installed.
#
#   scripts/peers.sh DIR                  fetch and unpack
#   DIR/llama-server -m MODEL --port N    run it
set -euo pipefail

dir="$(realpath -m "${1:?usage: scripts/peers.sh DIR}")"
suite="${PEERS_SUITE:-sid}"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
mirror="$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '/debian/?$' | head -n 1)"

mkdir -p "$dir"/apt/{sources.list.d,preferences.d,trusted.gpg.d,apt.conf.d} "$dir"/{state/lists,cache/archives}/partial "$dir"/root
: >"$dir/state/status" # as if nothing were installed, so that every library comes along
echo "deb [signed-by=$keyring] $mirror $suite main" >"$dir/apt/sources.list"
cat >"$dir/apt.conf" <<CONF
Dir::Etc "$dir/apt";
Dir::Etc::sourcelist "$dir/apt/sources.list";
Dir::Etc::sourceparts "$dir/apt/sources.list.d";
Dir::Etc::preferencesparts "$dir/apt/preferences.d";
Dir::State "$dir/state";
Dir::State::status "$dir/state/status";
Dir::Cache "$dir/cache";
APT::Sandbox::User "root";
// A mirror may stand still; signatures are checked all the same.
Acquire::Check-Valid-Until "false";
CONF
export APT_CONFIG="$dir/apt.conf"

apt-get -qq update
apt-get -qq -y --no-install-recommends --download-only install llama.cpp-tools patchelf
for package in "$dir"/cache/archives/*.deb; do
	dpkg-deb -x "$package" "$dir/root"
done

root="$dir/root"
loader="$(find "$root" -name 'ld-linux*.so.*' -print -quit)"
system="$(dirname "$(find "$root" -name libllama.so.0 -print -quit)")"
variants="$(dirname "$(find "$root" -name 'libggml-cpu*.so' -print -quit)")"

# The binary names its loader itself from now on: a router starts its models by its own path.
"$loader" --library-path "$system" "$root/usr/bin/patchelf" --set-interpreter "$loader" "$root/usr/bin/llama-server"
cat >"$dir/llama-server" <<RUN
#!/bin/sh
# The engine looks for its CPU variants in the current folder.
cd "$variants"
LD_LIBRARY_PATH="$system:$system/llama" exec "$root/usr/bin/llama-server" "\$@"
RUN
chmod +x "$dir/llama-server"
"$dir/llama-server" --version
