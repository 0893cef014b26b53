# Shared by the scripts of this folder; sourced, not run. Messages go to standard error.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
deps="$root/.deps"
me="$(basename "$0")"

say() { printf '%s: %s\n' "$me" "$*" >&2; }
fail() { printf '%s: error: %s\n' "$me" "$*" >&2; exit 1; }

# retry COMMAND...: up to three tries, a pause between them.
retry() {
  local try
  for try in 1 2 3; do
    "$@" && return 0
    [ "$try" = 3 ] || { say "try $try of 3 failed, again in $((try * 5)) s"; sleep $((try * 5)); }
  done
  return 1
}

# need_space FOLDER MIB WHY
need_space() {
  local free
  mkdir -p "$1"
  free=$(($(df -Pk "$1" | awk 'NR == 2 {print $4}') / 1024))
  [ "$free" -ge "$2" ] || fail "$free MiB of disk are free in $1, and $2 MiB are wanted for $3; make room and run this again"
}

# download FOLDER NAME...: the pinned wheels NAME into FOLDER; pip checks each against its hash.
download() {
  local folder="$1" name
  shift
  mkdir -p "$folder"
  for name in "$@"; do
    grep "^$name==" "$root/scripts/pins.txt" || fail "scripts/pins.txt names no $name"
  done > "$folder/requirements.txt"
  local progress=off
  [ ! -t 2 ] || progress=on
  # Platform and Python are named, so that the same wheels come whatever this machine's own Python is.
  retry python3 -m pip download --no-deps --no-cache-dir --only-binary=:all: --progress-bar "$progress" --disable-pip-version-check --no-input --retries 1 \
    --python-version 3.11 --implementation cp --abi cp311 --abi abi3 --abi none \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_25_x86_64 --platform manylinux_2_18_x86_64 --platform manylinux_2_17_x86_64 \
    --platform manylinux2014_x86_64 --require-hashes -r "$folder/requirements.txt" -d "$folder" >&2 ||
    fail "could not download $*. Is the package index reachable from here? See pip's message above; what was there before is untouched"
}

# build PRESET [TARGET...] [-- CONFIGURE_ARGUMENT...]: configures and builds, no louder than needed.
build() {
  local preset="$1" folder targets=() log
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do targets+=("$1"); shift; done
  [ $# -eq 0 ] || shift
  folder="build/$preset"
  [ "${1:-}" = -B ] && folder="$2"
  mkdir -p "$folder"
  log="$folder/configure.log"
  cmake --preset "$preset" "$@" > "$log" 2>&1 || { cat "$log" >&2; fail "CMake could not configure $folder"; }
  local command=(cmake --build "$folder")
  [ ${#targets[@]} -eq 0 ] || command+=(--target "${targets[@]}")
  "${command[@]}" >&2 || fail "the build failed in $folder; the compiler's messages are above"
}
