#!/usr/bin/env bash
# Checks firstframe on a GPU and measures it there, without a network, from the
# folder that scripts/gpu-pack.sh prepares (in which this script lies):
#   gpu-check.sh [--device cuda:0] [--bytes 1500MB] [--out gpu-check.json]
# It makes a model of that size, and writes one JSON document: what the device is,
# the bandwidths of its probe, the first chunk cold, resident, evicted and back and
# with its pages kept, each for transfer auto, pinned and pageable, and whether
# greedy answers are the CPU's. It ends with 1 when anything failed; the document
# then says what. With --device cpu it goes through the same steps without a GPU.
# As root it adds the folder's lib to the loader's path where libraries are missing.
# UNTESTED ON HARDWARE: no GPU could be had when this was written.
set -uo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
readonly here
device=cuda:0 bytes=1500MB out="$PWD/gpu-check.json"
while [ $# -gt 0 ]; do
	case "$1" in
	--device) device="${2:?}" ;;
	--bytes) bytes="${2:?}" ;;
	--out) out="${2:?}" ;;
	*)
		sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
		exit 2
		;;
	esac
	shift 2
done

readonly firstframe="$here/bin/firstframe"
export XDG_CACHE_HOME="$here/cache" # where the engines are
work="$(mktemp -d)"
readonly work
serving=""
finish() {
	[ -z "$serving" ] || kill "$serving" 2>/dev/null && wait "$serving" 2>/dev/null
	rm -rf "$work"
}
trap finish EXIT

failures=()
failed() {
	failures+=("$1")
	echo "FAILED: $1" >&2
}

# What the machine lacks may be in the folder.
libraries() {
	local name missing=()
	for name in libffi.so.8 libcudart.so.12 libcublas.so.12 libcublasLt.so.12; do
		ldconfig -p | grep -qF "$name" || { [ -e "$here/lib/$name" ] && missing+=("$name"); }
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	if [ "$(id -u)" = 0 ]; then
		echo "adding $here/lib to the loader's path for ${missing[*]}" >&2
		echo "$here/lib" >/etc/ld.so.conf.d/zz-firstframe-gpu-check.conf && ldconfig
	else
		failed "missing libraries: ${missing[*]}; run as root, or install them"
	fi
}

# declare_slot NAME MODEL DEVICE TRANSFER writes a configuration of one slot.
declare_slot() {
	cat >"$work/$1.hcl" <<-HCL
		model "$1" { path = "$2" }
		slot "$1" {
		  model    = model.$1
		  device   = "$3"
		  transfer = "$4"
		  context {
		    tokens   = 1024
		    parallel = 2
		  }
		}
	HCL
}

# up NAME serves a configuration and waits until its slot is resident.
up() {
	export FIRSTFRAME_STATE_DIR="$work/state-$1" # of what follows, too
	"$firstframe" serve -c "$work/$1.hcl" >"$work/$1.log" 2>&1 &
	serving=$!
	local tries
	for tries in $(seq 100); do
		"$firstframe" slots >/dev/null 2>&1 && break
		kill -0 "$serving" 2>/dev/null || break
		sleep 0.1
	done
	if ! timeout 120 "$firstframe" prepare "$1" >"$work/$1.prepare" 2>&1; then
		failed "$1 does not become resident (after $tries looks): $(tail -n 2 "$work/$1.prepare" | tr '\n' ' ')"
		tail -n 20 "$work/$1.log" >&2
		return 1
	fi
}

down() {
	kill "$serving" 2>/dev/null
	wait "$serving" 2>/dev/null || failed "the supervisor of $1 did not end well"
	serving=""
}

# document FILE: its JSON, or null.
document() { if [ -s "$1" ]; then cat "$1"; else echo null; fi; }

# answer NAME asks greedily, with log probabilities; several prompts.
answer() {
	local i=0 prompt
	: >"$work/$1.answers"
	for prompt in "Once upon a time" "The little bear" "What does the model say?"; do
		i=$((i + 1))
		timeout 60 "$firstframe" generate --slot "$1" --raw --max-tokens 24 --ignore-eos --logprobs 2 --json "$prompt" \
			>"$work/$1.$i.json" 2>"$work/$1.err" || failed "$1 does not answer: $(tail -n 1 "$work/$1.err")"
		# One line a token: its id, its log probability, that of the next likeliest.
		awk '/^      "token":/ { gsub(/[^0-9]/, "", $2); token = $2; top = 0 }
			/^      "logprob":/ { gsub(/,/, "", $2); own = $2 }
			/^          "logprob":/ { gsub(/,/, "", $2); if (++top == 2) print token, own, $2 }' \
			"$work/$1.$i.json" >>"$work/$1.answers"
		echo end >>"$work/$1.answers"
	done
}

# compare CPU OTHER: tokens are equal up to where the CPU itself nearly chose another,
# and their log probabilities differ by no more than the tolerance.
readonly tolerance=0.25
compare() {
	touch "$work/$1.answers" "$work/$2.answers"
	paste "$work/$1.answers" "$work/$2.answers" | awk -v tolerance=$tolerance '
		$1 == "end" { apart = 0; next }
		apart { next }
		NF < 6 { wrong++; next }
		$1 != $4 { apart = 1; if ($2 - $3 > tolerance) wrong++; else close_calls++; next }
		{ same++; d = $2 - $5; if (d < 0) d = -d; if (d > most) most = d }
		END {
			if (same == 0 || most > tolerance) wrong++
			printf "{\"equal_tokens\": %d, \"close_calls\": %d, \"wrong\": %d, \"largest_logprob_difference\": %.4f, \"tolerance\": %s}", same, close_calls, wrong, most, tolerance
			exit wrong > 0
		}' || failed "$2 does not answer as $1 does"
}

# measure NAME benches the slot that is up, and asks what it is.
measure() {
	timeout 150 "$firstframe" bench --slot "$1" --cases cold,resident,hit,host-hit,evicted --runs 5 --process-runs 2 --warm-up 1 \
		--max-tokens 4 >"$work/$1.bench" 2>"$work/$1.bench.err" || failed "bench of $1: $(tail -n 1 "$work/$1.bench.err")"
	"$firstframe" slots --json >"$work/$1.slots" 2>/dev/null || failed "slots of $1"
}

# medians NAME of the first chunk in ms, and evicted and back against cold.
medians() {
	awk '/first chunk: median/ { gsub(/[^a-z_0-9]/, "", $1); median[$1] = $5 }
		END {
			printf "{"
			for (name in median) printf "\"%s\": %s, ", name, median[name]
			cold = median["cold_slot_no_context_page"]; back = median["evicted_slot_host_buffer_kept"]
			if (cold > 0 && back > 0) printf "\"evicted_to_cold\": %.4f}", back / cold
			else printf "\"evicted_to_cold\": null}"
		}' "$work/$1.bench.err" 2>/dev/null || echo null
}

libraries
readonly model="$work/model.gguf" small="$here/storyteller-f16.gguf"
echo "making a model of $bytes" >&2
"$here/bin/modelgen" -bytes "$bytes" -tokenizer "$small" -o "$model" || failed "cannot make the model"

transfers=(auto pinned pageable)
[ "$device" != cpu ] || transfers=(auto mmap pageable)
declare_slot small-cpu "$small" cpu auto
declare_slot small-device "$small" "$device" auto
declare_slot large-cpu "$model" cpu auto
for name in small-cpu small-device large-cpu; do
	echo "answers of $name" >&2
	up "$name" && answer "$name"
	down "$name"
done
measured=()
for transfer in "${transfers[@]}"; do
	name="large-$transfer"
	echo "measuring transfer $transfer on $device" >&2
	declare_slot "$name" "$model" "$device" "$transfer"
	if up "$name"; then
		answer "$name"
		measure "$name"
		measured+=("$transfer")
	fi
	down "$name"
done

# Comparing may add failures, so it comes before they are written.
compare small-cpu small-device >"$work/small.compare"
for transfer in "${measured[@]}"; do compare large-cpu "large-$transfer" >"$work/large-$transfer.compare"; done

quoted() { printf '"%s"' "$(printf '%s' "$1" | tr -d '\000-\037' | sed 's/["\\]/\\&/g')"; }
{
	printf '{\n"check": "gpu",\n"device": %s,\n"date": "%s",\n' "$(quoted "$device")" "$(date -u +%FT%TZ)"
	printf '"version": %s,\n' "$(quoted "$("$firstframe" version 2>/dev/null | head -n 1)")"
	printf '"hardware": %s,\n' "$(quoted "$(nvidia-smi --query-gpu=name,driver_version,memory.total,pcie.link.gen.current,pcie.link.width.current --format=csv,noheader 2>/dev/null || echo none)")"
	printf '"model_bytes": %s,\n' "$(stat -c %s "$model" 2>/dev/null || echo 0)"
	printf '"seconds": %d,\n' "$SECONDS"
	printf '"small_model_against_cpu": %s,\n' "$(document "$work/small.compare")"
	printf '"transfers": {'
	comma=""
	for transfer in "${measured[@]}"; do
		name="large-$transfer"
		printf '%s\n%s: {"first_chunk_ms": %s,\n"against_cpu": %s,\n"slots": %s,\n"bench": %s}' "$comma" "$(quoted "$transfer")" \
			"$(medians "$name")" "$(document "$work/$name.compare")" "$(document "$work/$name.slots")" "$(document "$work/$name.bench")"
		comma=,
	done
	printf '},\n"failures": ['
	comma=""
	for failure in "${failures[@]}"; do
		printf '%s\n%s' "$comma" "$(quoted "$failure")"
		comma=,
	done
	printf ']\n}\n'
} >"$out"
echo "written: $out, after ${SECONDS}s, with ${#failures[@]} failures" >&2
[ ${#failures[@]} -eq 0 ]
