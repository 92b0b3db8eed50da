# To be sourced: looks into Debian's non-free section with a configuration of apt's
# own, so that the machine's stays as it is.
#   nonfree FOLDER SUITE   fills the array nonfree_apt: options for apt-get
nonfree() {
	local into="$1" release="$2" mirror
	mkdir -p "$into/lists/partial" "$into/cache/archives/partial" "$into/sources"
	# The first source of Debian itself, security and updates aside.
	mirror="$(apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' |
		grep -E '/debian/?$' | head -n 1 || true)"
	[ -n "$mirror" ] || { echo "no Debian mirror is configured for apt" >&2; return 1; }
	cat >"$into/sources/non-free.sources" <<-SOURCES
		Types: deb
		URIs: $mirror
		Suites: $release
		Components: non-free
		Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
	SOURCES
	nonfree_apt=(-qq -o "Dir::Etc::SourceList=/dev/null" -o "Dir::Etc::SourceParts=$into/sources"
		-o "Dir::State::Lists=$into/lists" -o "Dir::Cache=$into/cache" -o "APT::Architecture=amd64"
		-o "APT::Architectures::=amd64" -o "APT::Sandbox::User=root" -o "Acquire::Languages=none")
}
