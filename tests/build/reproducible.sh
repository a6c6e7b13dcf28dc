#!/usr/bin/env bash
# Compiles the commit that is checked out again, in a folder of another name, and compares the bytes with those of dist/. Says where
# they differ. With the environment of compile.sh.
set -euo pipefail
source "$(dirname "$0")/../../build/usage.sh" -- "$@"
cd "$(dirname "$0")/../.."
target=${1:-$(uname -m)-unknown-linux-gnu}
readonly target

if [[ -n $(git status --porcelain --untracked-files=no) ]]; then
  echo 'reproducible.sh: there are changes that are not committed, which a second build would not have' >&2
  exit 1
fi
COMMIT=$(git rev-parse HEAD) SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export COMMIT SOURCE_DATE_EPOCH

work=$(mktemp -d)
readonly work folder="$work/a longer name"
trap 'rm -rf "$work"' EXIT
mkdir "$folder"
git archive HEAD | tar -x -C "$folder"
(cd "$folder" && ./compile.sh --target "$target")

status=0
for file in "sluice-$target" sluice.cdx.json; do
  if cmp "dist/$file" "$folder/dist/$file"; then
    echo "$file: the same bytes, again"
  else
    status=1
    printf '%s: %s bytes differ, the first of them at these offsets:\n' "$file" \
      "$(cmp -l "dist/$file" "$folder/dist/$file" 2>/dev/null | wc -l)"
    cmp -l "dist/$file" "$folder/dist/$file" 2>/dev/null | head -n 20 || true
  fi
done
exit "$status"
