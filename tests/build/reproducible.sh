#!/usr/bin/env bash
# Compiles the commit that is checked out twice, in folders of different names, and compares the second's bytes with those of
# of dist/. Says which files of the bundle differ where they do. With the environment of compile.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${1:-$(uname -m)-unknown-linux-gnu}
readonly target

if [[ -n $(git status --porcelain --untracked-files=no) ]]; then
  echo 'reproducible.sh: there are changes that are not committed, which a second build would not have' >&2
  exit 1
fi
COMMIT=$(git rev-parse HEAD) SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export COMMIT SOURCE_DATE_EPOCH

folders=("$(mktemp -d)" "$(mktemp -d)/a longer name")
trap 'rm -rf "${folders[0]}" "$(dirname "${folders[1]}")"' EXIT
for folder in "${folders[@]}"; do
  mkdir -p "$folder"
  git archive HEAD | tar -x -C "$folder"
  (cd "$folder" && ./compile.sh --target "$target")
done

status=0
for file in "sluice-$target" sluice.cdx.json; do
  if cmp "${folders[0]}/dist/$file" "${folders[1]}/dist/$file"; then
    echo "$file: the same bytes, twice"
  else
    status=1
    printf '%s: %s bytes differ, the first of them at these offsets:\n' "$file" \
      "$(cmp -l "${folders[0]}/dist/$file" "${folders[1]}/dist/$file" 2>/dev/null | wc -l)"
    cmp -l "${folders[0]}/dist/$file" "${folders[1]}/dist/$file" 2>/dev/null | head -n 20 || true
  fi
done
exit "$status"
