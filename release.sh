#!/usr/bin/env bash
# Builds a release in dist/release from a clean checkout, for amd64 and arm64: tarballs, .deb, .rpm, one OCI image for both,
# the Helm chart, a manifest for krew, install.sh, SBOMs, provenance, and SHA256SUMS. Reproducible: the same commit and tools
# give the same bytes.
#
#   ./release.sh            # compiles both executables first
#   ./release.sh --reuse    # packages the executables in dist/, of whatever commit they are
#
# Needs Debian 12 or later with git, Node 20, Go, python3-pip, dpkg and binutils, and its package sources. Changes nothing on
# the machine but the caches of these tools.
#
# Environment:
#   DENO              the deno command that compiles (see compile.sh)
#   NFPM              the nfpm command (default: installed into the cache by `go install`)
#   REPOSITORY_URL    address of the repository, in executables, packages, image, chart, krew manifest, provenance and install.sh
#   MAINTAINER        NAME <ADDRESS> of the packages' maintainer
#   BUILDER_ID        who builds, in the provenance
#   SOURCE_DATE_EPOCH time in all files, in seconds since 1970 (default: that of the commit)
set -euo pipefail
source "$(dirname "$0")/build/usage.sh" --reuse -- "$@"
cd "$(dirname "$0")"

fail() {
  echo "release.sh: $*" >&2
  exit 1
}

reuse=
case $#:${1:-} in
  0:) ;;
  1:--reuse) reuse=yes ;;
  *) fail "unknown arguments “$*”: ./release.sh [--reuse]" ;;
esac
[[ -n $reuse || -z $(git status --porcelain) ]] || fail 'there are uncommitted changes: commit them, or package the executables in dist/ with --reuse'

readonly nfpm_version=v2.43.0
readonly out=dist/release
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
COMMIT=$(git rev-parse HEAD)
readonly placeholder=https://sluice.example/sluice
REPOSITORY_URL=${REPOSITORY_URL:-$placeholder}
MAINTAINER=${MAINTAINER:-Sluice maintainers <maintainers@users.noreply.github.com>}
VERSION=$(sed -n 's/^export const VERSION = "\(.*\)";$/\1/p' platform/build.ts)
readonly SOURCE_DATE_EPOCH VERSION REPOSITORY_URL MAINTAINER COMMIT
export SOURCE_DATE_EPOCH VERSION REPOSITORY_URL MAINTAINER COMMIT LC_ALL=C TZ=UTC
umask 022

# Debian's names of the architectures and their targets.
declare -A targets=([amd64]=x86_64-unknown-linux-gnu [arm64]=aarch64-unknown-linux-gnu)
readonly targets architectures=(amd64 arm64)

# script COMMAND...: runs one of the project's scripts.
script() {
  npx -y deno@2.9.6 run --quiet --no-prompt --allow-read --allow-write=dist --allow-env "$@" 2> >(grep -v 'npm warn' >&2)
}

# The nfpm command, in a cache by version.
nfpm() {
  local folder=${XDG_CACHE_HOME:-$HOME/.cache}/sluice-release/nfpm-$nfpm_version
  if [[ -z ${NFPM:-} && ! -x $folder/nfpm ]]; then
    GOBIN=$folder go install "github.com/goreleaser/nfpm/v2/cmd/nfpm@$nfpm_version"
  fi
  "${NFPM:-$folder/nfpm}" "$@"
}

# archive FOLDER NAME: prints a tar of FOLDER/NAME with sorted names, fixed owners and times.
archive() {
  tar --directory="$1" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu --create "$2"
}

# Files that are the same for all architectures.
stage_common() {
  local stage=$1 program
  program=dist/sluice-$(uname -m)-unknown-linux-gnu
  mkdir -p "$stage/completions"
  "$program" man > "$stage/sluice.8"
  "$program" completion bash > "$stage/completions/sluice.bash"
  "$program" completion zsh > "$stage/completions/_sluice"
  "$program" completion fish > "$stage/completions/sluice.fish"
  find deploy -maxdepth 1 \( -name '*.service' -o -name '*.openrc' \) -exec cp {} "$stage/" \;
  cp deploy/config.yaml LICENSE NOTICE README.md CHANGELOG.md "$stage/"
  chmod -R a+rX,go-w "$stage"
}

tarball() {
  local name=sluice-$VERSION-linux-$1 stage=$2
  mv "$stage" "$work/$name"
  archive "$work" "$name" | gzip -9n > "$out/$name.tar.gz"
  mv "$work/$name" "$stage"
}

# Turns the files of the tarball into those of packages, which install into /usr.
stage_packages() {
  local stage=$1
  sed -i 's|/usr/local/bin/sluice|/usr/bin/sluice|' "$stage"/*.service
  # The comment before the first empty line is about a manual installation.
  sed -i '1,/^$/ { 1i # Installed by the package; `systemctl edit` changes it.
    /^#/d }' "$stage"/*.service
  gzip -9n "$stage/sluice.8" "$stage/CHANGELOG.md"
  {
    printf 'sluice (%s-1) unstable; urgency=medium\n\n  * See changelog.gz.\n\n' "$VERSION"
    printf ' -- %s  %s\n' "$MAINTAINER" "$(date -R --date="@$SOURCE_DATE_EPOCH")"
  } | gzip -9n > "$stage/changelog.Debian.gz"
}

packages() {
  local format
  for format in deb rpm; do
    STAGE=$2 ARCH=$1 HOMEPAGE=$REPOSITORY_URL nfpm package --config build/release/nfpm.yaml --packager "$format" \
      --target "$out/sluice_$VERSION-1_$1.$format" > "$work/nfpm" || fail "nfpm: $(< "$work/nfpm")"
  done
}

for architecture in "${architectures[@]}"; do
  executable=dist/sluice-${targets[$architecture]}
  if [[ -z $reuse ]]; then ./compile.sh --target "${targets[$architecture]}"; fi
  [[ -x $executable ]] || fail "$executable does not exist: run ./release.sh without --reuse"
done

work=$(mktemp -d dist/release.work.XXXXXX)
trap 'rm -rf "$work"' EXIT
rm -rf "$out"
mkdir -p "$out"

for architecture in "${architectures[@]}"; do
  stage=$work/$architecture
  stage_common "$stage"
  cp "dist/sluice-${targets[$architecture]}" "$stage/sluice"
  tarball "$architecture" "$stage"
  stage_packages "$stage"
  packages "$architecture" "$stage"
  build/release/image-root "$architecture" "$stage/sluice" "$work/image/$architecture"
  archive "$work/image/$architecture/root" . > "$work/image/$architecture/root.tar"
  archive "$work/image/$architecture/program" . > "$work/image/$architecture/program.tar"
done

script build/release/image.ts "$work/image" "$work/layout"
archive "$work/layout" . > "$out/sluice-$VERSION-oci.tar"
for architecture in "${architectures[@]}"; do
  script build/release/image_sbom.ts "$architecture" "$work/image/$architecture" "$out/sluice-$VERSION-image-$architecture.cdx.json"
done
mkdir "$work/chart"
cp -rL deploy/helm/sluice "$work/chart/"
sed -i "s|$placeholder|$REPOSITORY_URL|" "$work/chart/sluice/Chart.yaml" "$work/chart/sluice/files/alerts.yaml"
chmod -R a+rX,go-w "$work/chart"
archive "$work/chart" sluice | gzip -9n > "$out/sluice-chart-$VERSION.tgz"
cp dist/sluice.cdx.json "$out/sluice-$VERSION.cdx.json"
sed "s|$placeholder|$REPOSITORY_URL|" install.sh > "$out/install.sh"
chmod 755 "$out/install.sh"
script build/release/krew.ts "$out" "$out/sluice-$VERSION-krew.yaml"
script build/release/provenance.ts "$out" "$out/sluice-$VERSION.provenance.json"
(cd "$out" && sha256sum -- * > SHA256SUMS)
ls -l "$out" | awk 'NR > 1 { printf "%12d  %s\n", $5, $9 }'
