#!/bin/sh
# Installs a release of Sluice, or upgrades to it:
#
#   curl -fsSL BASE-URL/install.sh | sudo sh -s -- [--version VERSION] [--base-url URL] [--method deb|rpm|tarball] [--downgrade] [--insecure]
#
# It picks the architecture, downloads the release over https, verifies its checksum, and its signature if it has one and cosign
# is installed, and installs it by package where apt-get, dnf or zypper is there, otherwise from the tarball into /usr/local. It
# does not start the service. --insecure allows http. Flags after `--` are those of `sluice install`, for the tarball.
set -eu

version=0.2.0
repository=https://sluice.example/sluice
releases=${SLUICE_RELEASES_URL:-$repository/releases/download}
# Who signs releases: the workflow of the repository, on the tag of the version.
signer=$repository/.github/workflows/release.yml@refs/tags
issuer=https://token.actions.githubusercontent.com
base_url= method= downgrade= insecure=

fail() {
  echo "install.sh: $1" >&2
  exit 1
}

usage='usage: install.sh [--version VERSION] [--base-url URL] [--method deb|rpm|tarball] [--downgrade] [--insecure] [-- FLAG…]'

# refuse REASON: ends with the usage.
refuse() {
  printf 'install.sh: %s\n%s\n' "$1" "$usage" >&2
  exit 2
}

has() { command -v "$1" > /dev/null 2>&1; }

# is_older A B: whether version A comes before B.
is_older() {
  [ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

while [ $# -gt 0 ]; do
  case $1 in
    --version | --base-url | --method)
      [ $# -ge 2 ] || refuse "$1 needs a value"
      case $1 in
        --version) version=${2#v} ;;
        --base-url) base_url=${2%/} ;;
        --method) method=$2 ;;
      esac
      shift 2
      ;;
    --downgrade) downgrade=yes && shift ;;
    --insecure) insecure=yes && shift ;;
    --) shift && break ;;
    --help) echo "$usage" && exit ;;
    *) refuse "unknown option $1" ;;
  esac
done
: "${base_url:=$releases/v$version}"
case $base_url in
  https://*) ;;
  *) [ -n "$insecure" ] || fail "$base_url is not https, so anyone on the network path can replace the release: use https, or add --insecure" ;;
esac

check_machine() {
  [ "$(uname -s)" = Linux ] || fail "Sluice runs on Linux only, this is $(uname -s)"
  machine=$(uname -m)
  case $machine in
    x86_64 | amd64) architecture=amd64 ;;
    aarch64 | arm64) architecture=arm64 ;;
    *) fail "there is no release for $machine (only for x86_64 and aarch64)" ;;
  esac
  glibc=$(getconf GNU_LIBC_VERSION 2> /dev/null | sed 's/^glibc //') || glibc=
  [ -n "$glibc" ] || fail 'this system has no glibc (musl?), which Sluice needs: use the container image'
  if is_older "$glibc" 2.27; then fail "this system has glibc $glibc, Sluice needs 2.27 or later: use the container image"; fi
  [ "$(id -u)" = 0 ] || fail 'not root: run it with sudo'
  has sha256sum || fail 'sha256sum is missing (package coreutils)'
  has curl || has wget || fail 'curl or wget is needed to download the release'
}

# Sets installed (a version, or empty) and installed_by.
find_installed() {
  installed= installed_by=
  if has dpkg-query && [ "$(dpkg-query -W -f '${db:Status-Status}' sluice 2> /dev/null)" = installed ]; then
    installed_by=deb installed=$(dpkg-query -W -f '${Version}' sluice | sed 's/-[^-]*$//')
  elif has rpm && rpm -q sluice > /dev/null 2>&1; then
    installed_by=rpm installed=$(rpm -q --queryformat '%{VERSION}' sluice)
  elif [ -x /usr/local/bin/sluice ]; then
    installed_by=tarball
    installed=$(/usr/local/bin/sluice --version | sed -n '1s/^[^ ]* \([^ ]*\).*/\1/p')
    [ -n "$installed" ] || fail '/usr/local/bin/sluice does not print its version: remove it and try again'
  fi
}

choose_method() {
  if [ -z "$method" ]; then
    if [ -n "$installed_by" ]; then method=$installed_by
    elif has dpkg && has apt-get; then method=deb
    elif has rpm && { has dnf || has yum || has zypper; }; then method=rpm
    else method=tarball
    fi
  fi
  case $method in
    deb) file=sluice_$version-1_$architecture.deb ;;
    rpm) file=sluice_$version-1_$architecture.rpm ;;
    tarball) file=sluice-$version-linux-$architecture.tar.gz ;;
    *) fail "unknown method $method: use deb, rpm or tarball" ;;
  esac
  if [ -n "$installed_by" ] && [ "$installed_by" != "$method" ]; then
    fail "Sluice $installed is installed by $installed_by: remove it first, or use --method $installed_by"
  fi
}

check_versions() {
  if [ "$installed" = "$version" ]; then
    echo "Sluice $version is already installed (by $installed_by); nothing to do."
    exit 0
  fi
  if [ -n "$installed" ] && is_older "$version" "$installed" && [ -z "$downgrade" ]; then
    fail "Sluice $installed is installed, which is newer than $version: add --downgrade to replace it"
  fi
}

# fetch NAME: downloads a file of the release into the current folder, without a redirect from https to http.
fetch() {
  if has curl; then
    if [ -n "$insecure" ]; then curl -fsSL -o "$1" "$base_url/$1"
    else curl -fsSL --proto =https --proto-redir =https -o "$1" "$base_url/$1"
    fi
  else
    # wget cannot refuse such a redirect, but names it.
    wget -S -O "$1" "$base_url/$1" 2> headers || return
    [ -n "$insecure" ] || ! grep -qi '^ *location: *http:' headers || fail "$base_url/$1 leads to an address without https"
  fi
}

download() {
  fetch "$1" || fail "cannot download $base_url/$1 (is there a release $version?)"
}

# Verifies $file, and says what that proves.
verify() {
  expected=$(awk -v name="$file" '$2 == name { print $1 }' SHA256SUMS)
  [ -n "$expected" ] || fail "$base_url/SHA256SUMS does not name $file"
  actual=$(sha256sum "$file" | cut -d' ' -f1)
  [ "$actual" = "$expected" ] || fail "wrong checksum of $file: $actual instead of $expected; nothing was installed"
  signature=sluice-$version.sigstore.json
  if ! fetch "$signature" 2> /dev/null; then unsigned='the release has no signature'
  elif ! has cosign; then unsigned="cosign is not installed, so that $signature was not verified"
  elif ! cosign verify-blob-attestation --bundle "$signature" --new-bundle-format --type slsaprovenance1 \
    --certificate-identity "$signer/v$version" --certificate-oidc-issuer "$issuer" "$file" > cosign.log 2>&1; then
    fail "the signature of $file is not valid for $signer/v$version: $(tail -n 1 cosign.log); nothing was installed"
  else
    echo "Verified: $file was signed by $signer/v$version."
    return
  fi
  echo "Verified: $file is complete, by the checksum in $base_url/SHA256SUMS."
  echo "Not verified: where it comes from ($unsigned)."
}

install_deb() {
  # apt-get's own user reads the file.
  chmod 755 . && chmod 644 "$file"
  # An edited configuration stays.
  DEBIAN_FRONTEND=noninteractive apt-get install --yes --allow-downgrades \
    -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold "./$file"
}

install_rpm() {
  if has dnf; then dnf_like=dnf; else dnf_like=yum; fi
  if has zypper; then zypper --non-interactive install --allow-unsigned-rpm --oldpackage "./$file"
  elif [ -n "$installed" ] && is_older "$version" "$installed"; then "$dnf_like" downgrade -y "./$file"
  else "$dnf_like" install -y "./$file"
  fi
}

install_tarball() {
  tar -xzf "$file"
  "./${file%.tar.gz}/sluice" install "$@"
  # With another version, a running service has to start again; the rules stay in the kernel meanwhile.
  if [ -n "$installed" ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    # systemd waits until the rules are in effect, which may take as long as the API server is away.
    timeout 60 systemctl try-restart sluice || [ $? -eq 124 ]
  fi
}

main() {
  check_machine
  find_installed
  choose_method
  [ $# -eq 0 ] || [ "$method" = tarball ] || fail "flags after -- need --method tarball: the $method leaves /etc/sluice/config.yaml to you"
  check_versions
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  cd "$folder"
  download SHA256SUMS
  download "$file"
  verify
  "install_$method" "$@"
  if [ -n "$installed" ]; then echo "Sluice $version is installed by $method, instead of $installed."
  else echo "Sluice $version is installed by $method ($architecture), and not started."
  fi
}
# In a function, so that nothing happens if the download of this script breaks off.
main "$@"
