#!/usr/bin/env bash
# Builds the executable dist/sluice-TARGET, its checksum dist/sluice-TARGET.sha256, and the SBOM dist/sluice.cdx.json. For this
# machine's target, dist/sluice is the same file, with dist/sluice.sha256. Reproducible: the same commit, Deno, base binary,
# REPOSITORY_URL and target give the same bytes.
#
#   ./compile.sh [--target x86_64-unknown-linux-gnu|aarch64-unknown-linux-gnu]    # default: this machine's
#
# Needs npx and Deno's download server. If that has no base binary for `deno compile` here, build/denort.sh provides an older one; then
# dist/sluice-stand-in is the same program on the newest Deno, which runs the bundle in dist/stand-in. It is for tests on this machine.
#
# Environment:
#   DENO           the deno command, 2.7 or later, may contain spaces: 'npx -y deno@2.9.6' (default: see above; with DENORT_BIN, deno)
#   DENORT_BIN     the base binary of `deno compile` for that version and the target (default: Deno downloads it)
#   COMMIT         commit shown by the executable (default: from git)
#   REPOSITORY_URL address of the repository, for links to the documentation
#   EXEC_PLUGINS   additional permitted credential plugins, comma-separated (see below)
#   SOURCE_DATE_EPOCH  time in the SBOM, in seconds since 1970 (default: that of the commit)
#   V8_FLAGS       overrides the built-in V8 flags
set -euo pipefail
source "$(dirname "$0")/build/usage.sh" --target -- "$@"
cd "$(dirname "$0")"

fail() {
  echo "compile.sh: $*" >&2
  exit 1
}

native=$(uname -m)-unknown-linux-gnu
target=$native
case $#:${1:-} in
  0:) ;;
  2:--target) target=$2 ;;
  *) fail "unknown arguments “$*”: ./compile.sh [--target TARGET]" ;;
esac
# Processor number in an ELF header (e_machine).
case $target in
  x86_64-unknown-linux-gnu) machine=62 ;;
  aarch64-unknown-linux-gnu) machine=183 ;;
  *) fail "unknown target $target: use x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu" ;;
esac
readonly native target machine executable=dist/sluice-$target

# By default, Deno before 2.9 ignores the system's certificate store for downloads.
export DENO_TLS_CA_STORE="${DENO_TLS_CA_STORE:-mozilla,system}"
export NO_COLOR=1

readonly newest_version=2.9.6
readonly newest=(npx -y "deno@$newest_version")
base="Deno $newest_version" stand_in=
has_base_binary() {
  timeout 30 "${newest[@]}" eval \
    "const { ok } = await fetch('https://dl.deno.land/release/v$newest_version/denort-$target.zip', { method: 'HEAD' }); Deno.exit(ok ? 0 : 1);" \
    > /dev/null 2>&1
}
if [[ -n ${DENO:-}${DENORT_BIN:-} ]]; then
  DENO=${DENO:-deno}
  base=$DENO
elif has_base_binary; then
  DENO=${newest[*]}
else
  base="Deno $(build/denort.sh --version) of build/denort.sh"
  echo "compile.sh: cannot download the base binary of Deno $newest_version for $target: using that of $base" >&2
  DENO="npx -y deno@$(build/denort.sh --version)"
  DENORT_BIN=$(build/denort.sh "$target")
  export DENORT_BIN
  if [[ $target == "$native" ]]; then stand_in=yes; fi
fi
read -ra deno <<<"$DENO"
readonly deno base stand_in
readonly root=$PWD

# Permissions of the executable; a run drops those it does not need (cli/commands/run.ts).
kernel_tools=iptables,iptables-save,iptables-restore,ip6tables,ip6tables-save,ip6tables-restore,nft,ipvsadm,ipset,ip
kernel_tools+=,iptables-legacy-save,iptables-legacy-restore,ip6tables-legacy-save,ip6tables-legacy-restore
kernel_tools+=,iptables-nft-save,iptables-nft-restore,ip6tables-nft-save,ip6tables-nft-restore
kernel_tools+=,conntrack,sysctl,modprobe,choom,systemd-notify
# `sluice check` uses `ss` to find listeners, since it cannot read /proc. `sluice install --now` starts the service with
# `systemctl` (or OpenRC's `rc-update` and `rc-service`) and shows its log with `journalctl` if it does not come up.
# `prlimit` raises the limit of open files before a run drops the permission to start programs.
node_tools=ss,systemctl,journalctl,rc-update,rc-service,prlimit
# Credential plugins of the common providers. Allowing all names would allow every program. Others are added with
# EXEC_PLUGINS, or linked to sluice-credentials on the node.
# The program of `sluice watch local --exec`; others are added with EXEC_HOOKS.
exec_hooks=sluice-hook${EXEC_HOOKS:+,$EXEC_HOOKS}
exec_plugins=sluice-credentials,aws,aws-iam-authenticator,az,doctl,gcloud,gke-gcloud-auth-plugin,ibmcloud,kubectl-oidc_login,kubelogin,oci,tsh
# `sluice cluster`, also as kubectl-sluice, asks other nodes with the user's kubectl.
workstation_tools=kubectl
permissions=(
  --no-prompt
  --allow-net                 # API server and bind addresses are the operator's choice
  --allow-read                # paths of configuration, manifests, certificates and tokens too
  --allow-write               # --write-config-to, --control-socket and --state-directory take any path; dropped by a run once it listens
  --allow-env                 # credential plugins and hooks inherit the whole environment; dropped by a run
  # A worker asks the kernel with it whether the rules have changed; dropped by each isolate before it reads what others wrote.
  --allow-ffi=/lib/x86_64-linux-gnu/libc.so.6,/lib/aarch64-linux-gnu/libc.so.6,/lib64/libc.so.6,/usr/lib/libc.so.6
  --allow-sys=hostname,networkInterfaces,osRelease,homedir,uid,cpus
  "--allow-run=$kernel_tools,$node_tools,$workstation_tools,$exec_hooks,$exec_plugins${EXEC_PLUGINS:+,$EXEC_PLUGINS}"
)
# Measured (docs/bottlenecks.md). The first line bounds V8's heaps; the second frees the heap of a worker when it ends; the third
# has less code compiled, and later.
v8_flags=--optimize-for-size,--max-semi-space-size=1,--initial-heap-size=32
v8_flags+=,--gc-memory-reducer-start-delay-ms=1000,--memory-reducer-delay-ms=1000
v8_flags+=,--no-memory-pool-share-memory-on-teardown
v8_flags+=,--no-sparkplug,--invocation-count-for-maglev=2000,--invocation-count-for-turbofan=9000
v8_flags=${V8_FLAGS-$v8_flags}

stage=$(mktemp -d) maps=$(mktemp -d)
trap 'rm -rf "$stage" "$maps"' EXIT

# Optional dependencies of packages.
external=()
for name in bufferutil encoding supports-color utf-8-validate; do external+=(--external "$name"); done

# Code splitting keeps what a command does not need in separate files, which are read only if needed.
workers=(workers/family.ts workers/plugin.ts workers/relay.ts workers/runtime.ts workers/serve.ts)
# Bundle a copy of the sources at a fixed depth: the names of output files depend on the relative path to Deno's cache.
mkdir "$maps/sources"
rooms=(answers backends cli config core features kpng node observe platform relay serve sources workers)
cp -r main.ts deno.json deno.lock "${rooms[@]}" "$maps/sources/"
sed -i "s|https://sluice\.example/sluice|${REPOSITORY_URL:-&}|" "$maps/sources/platform/build.ts"
bundle() (
  cd "$maps/sources"
  "${deno[@]}" bundle --quiet --platform deno --minify --code-splitting "${external[@]}" "$@" main.ts "${workers[@]}" \
    2> >(grep -v -e 'npm warn' -e '^$' >&2)
)
bundle --outdir "$stage"
# Bundle again for the source maps, from which the SBOM is made; with them, names of output files would depend on the folders.
bundle --outdir "$maps/bundle" --sourcemap=external
# Deno's bundlers give CommonJS packages either no `require` for Node modules, or one that loads node:module (1.5 MB) in every
# isolate. Only yaml and commander call it, so load node:module at the first call.
readonly create_require='import{createRequire as __deno_internal_createRequire} from "node:module";'
readonly late_require='(id)=>process.getBuiltinModule("node:module").createRequire(import.meta.url)(id);'
{ grep -rlF -e 'Dynamic require of' "$stage" --include='*.js' || true; } | while read -r file; do
  sed -i "1s/^/var require=$late_require/" "$file"
done
{ grep -rlF -e "$create_require" "$stage" --include='*.js' || true; } | while read -r file; do
  sed -i "s/$create_require/var __deno_internal_createRequire=()=>$late_require/" "$file"
done

include=()
for worker in "${workers[@]}"; do
  name=$(basename "$worker" .ts).js
  # Workers are loaded from the folder of main.js.
  echo "import './workers/$name';" > "$stage/$name"
  include+=(--include "$stage/$name")
done

# Files read by platform/build.ts: shipped files, the commit, and the bundled packages from the source maps.
for file in deploy/{sluice.service,sluice.openrc,config.yaml,rbac.yaml,sites.yaml}; do
  cp "$file" "$stage/"
  include+=(--include "$stage/${file#deploy/}")
done
commit=${COMMIT:-$(git describe --always --dirty --abbrev=40 --match '' 2>/dev/null || echo unknown)}
mkdir -p dist
"${deno[@]}" run --quiet --no-prompt --allow-read --allow-write="$stage,dist" --allow-env build/main.ts \
  "$maps/bundle" "$stage/build.json" dist/sluice.cdx.json "$commit" "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null)}" 2> >(grep -v 'npm warn' >&2)
include+=(--include "$stage/build.json")

# The executable contains the modification times of its files.
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
find "$stage" -exec touch --date="@$epoch" {} +
# No code cache: Deno stores it under a predictable name in a world-writable folder, and Sluice runs as root.
options=(--quiet --no-config --no-lock --no-check --no-code-cache --unstable-net --unstable-worker-options "${permissions[@]}"
  ${v8_flags:+"--v8-flags=$v8_flags"})
# Without PATH, as after `env -i`, Deno cannot find tools by name and does not start: this value is the default.
echo PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin > "$maps/environment"
"${deno[@]}" compile "${options[@]}" --env-file="$maps/environment" "${include[@]}" --target "$target" --output "$executable" "$stage/main.js" 2> >(grep -v 'npm warn' >&2) ||
  fail "deno compile failed with $base"

if [[ $(od -An -tu2 -j18 -N2 "$executable" | tr -d ' ') != "$machine" ]]; then
  rm "$executable"
  fail "$executable is not for $target: DENORT_BIN=${DENORT_BIN:-} is the base binary of another target"
fi
for trace in "$root" "$stage" "$HOME/" fast-check vitepress; do
  if grep -qaF -- "$trace" "$executable"; then
    fail "$executable contains “$trace” from the build machine or from development"
  fi
done
grep -qaF "{\"commit\":\"$commit\"" "$executable" || fail "$executable does not contain the commit $commit"

# checksum NAME: writes dist/NAME.sha256.
checksum() { (cd dist && sha256sum "$1" > "$1.sha256"); }
checksum "sluice-$target"
built=$executable
if [[ $target == "$native" ]]; then
  "$executable" version -o json | grep -qF "\"commit\": \"$commit\"" || fail "$executable does not report the commit $commit"
  ln -f "$executable" dist/sluice
  checksum sluice
  built+=' and dist/sluice'
fi
built+=" ($base)"
if [[ -n $stand_in ]]; then
  rm -rf dist/stand-in
  cp -r "$stage" dist/stand-in
  # Without npx, which takes a second at each start.
  program=$("${newest[@]}" eval 'console.log(Deno.execPath())' 2> >(grep -v 'npm warn' >&2))
  printf '#!/bin/sh\nexec %s"$@"\n' "$(printf '%q ' "$program" run "${options[@]}" "$root/dist/stand-in/main.js")" > dist/sluice-stand-in
  chmod +x dist/sluice-stand-in
  built+=", and dist/sluice-stand-in (Deno $newest_version)"
elif [[ $target == "$native" ]]; then
  rm -rf dist/stand-in dist/sluice-stand-in
fi
bytes=$(stat -c %s "$executable")
printf '%s: %s bytes (%s MB), sha256 %s\n' "$built" "$bytes" "$((bytes / 1000000))" "$(cut -c1-16 "$executable.sha256")…"
