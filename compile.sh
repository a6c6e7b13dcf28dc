#!/usr/bin/env bash
# Builds dist/sluice-TARGET, one executable file, its checksum in dist/sluice-TARGET.sha256, and dist/sluice.cdx.json, the list
# of what is inside. For this machine's own target, dist/sluice is the same file, with dist/sluice.sha256. The same commit, Deno,
# base binary and target make the same bytes.
#
#   ./compile.sh [--target x86_64-unknown-linux-gnu|aarch64-unknown-linux-gnu]    # default: this machine's own
#
# With any Deno from 2.7 on, and nothing else. Where Deno's base binary cannot be downloaded:
#
#   DENORT_BIN=$(build/denort.sh) DENO="npx -y deno@$(build/denort.sh --version)" ./compile.sh
#
# From the environment:
#   DENO           the deno to use, words allowed: 'npx -y deno@2.9.6' (default: deno)
#   DENORT_BIN     the base binary of `deno compile` for that version and the target (default: Deno downloads it)
#   COMMIT         what the executable says that it was made of (default: git's answer)
#   EXEC_PLUGINS   further credential plugins that a kubeconfig may start, comma-separated (see below)
#   SOURCE_DATE_EPOCH  the time in the list, in seconds since 1970 (default: the commit's)
#   V8_FLAGS       overrides the V8 flags that are built in
set -euo pipefail
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
# The number of the processor in the header of an ELF file (e_machine).
case $target in
  x86_64-unknown-linux-gnu) machine=62 ;;
  aarch64-unknown-linux-gnu) machine=183 ;;
  *) fail "unknown target $target: name x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu" ;;
esac
readonly native target machine executable=dist/sluice-$target

read -ra deno <<<"${DENO:-deno}"
readonly deno
readonly root=$PWD
# Without it, Deno before 2.9 trusts none of the certificates in the system's store when it downloads packages.
export DENO_TLS_CA_STORE="${DENO_TLS_CA_STORE:-mozilla,system}"
export NO_COLOR=1

# What the executable may do; it can never do more, and gives up what a run does not need (see main.ts).
kernel_tools=iptables,iptables-save,iptables-restore,ip6tables,ip6tables-save,ip6tables-restore,nft,ipvsadm,ipset,ip
kernel_tools+=,conntrack,sysctl,modprobe,choom
# `ss` tells `sluice check` who listens where: without /proc, nothing else does. `systemctl` is for `sluice install --now`.
# `prlimit` raises the limit of open files before a run gives up the right to start programs.
node_tools=ss,systemctl,prlimit
# The credential plugins that kubeconfigs of the common providers name. A plugin is a program of any name; allowing
# all of them would mean any program at all. Another one is named when the executable is built, or goes by the name of
# sluice-credentials (a link will do) on the node.
exec_plugins=sluice-credentials,aws,aws-iam-authenticator,az,doctl,gcloud,gke-gcloud-auth-plugin,ibmcloud,kubectl-oidc_login,kubelogin,oci,tsh
permissions=(
  --no-prompt
  --allow-net                 # the API server and the bind addresses are the operator's choice
  --allow-read                # so are the paths of configuration, manifests, certificates and tokens
  --allow-write               # --write-config-to and --control-socket name any path; a run gives it up once it listens
  --allow-env                 # client-node's `debug` and its exec plugins read the whole environment, or fail to load
  --allow-sys=hostname,networkInterfaces,osRelease,homedir,uid,cpus
  "--allow-run=$kernel_tools,$node_tools,$exec_plugins${EXEC_PLUGINS:+,$EXEC_PLUGINS}"
)
# Chosen by measurement (docs/performance.md): with 10,000 services of 3 endpoints 252 MB become 170, for a tenth more CPU.
v8_flags=${V8_FLAGS---optimize-for-size,--max-semi-space-size=1,--initial-heap-size=32,--gc-memory-reducer-start-delay-ms=1000}

stage=$(mktemp -d) maps=$(mktemp -d)
trap 'rm -rf "$stage" "$maps"' EXIT

# Packages that others load when they happen to be there.
external=()
for name in bufferutil encoding supports-color utf-8-validate; do external+=(--external "$name"); done

# Split, so that @kubernetes/client-node, imported where a kubeconfig needs it, stays a file of its own that is not
# even read before that.
workers=(workers/family.ts workers/plugin.ts)
# In a copy of the sources at a place of the same depth as ever: the names of the files that the bundler makes depend on
# how the packages in Deno's cache are reached from here.
mkdir "$maps/sources"
rooms=(answers backends cli config core kpng observe platform proxy sources workers)
cp -r main.ts deno.json deno.lock "${rooms[@]}" "$maps/sources/"
bundle() (
  cd "$maps/sources"
  "${deno[@]}" bundle --quiet --platform deno --minify --code-splitting "${external[@]}" "$@" main.ts "${workers[@]}" \
    2> >(grep -v -e 'npm warn' -e '^$' >&2)
)
bundle --outdir "$stage"
# Once more for the source maps, which say what is inside: with them, the names of the files would depend on the folders.
bundle --outdir "$maps/bundle" --sourcemap=external
# Bundlers of Deno leave CommonJS packages without a `require` for Node's own modules, or give every isolate one, and with it
# node:module, which takes 1.5 MB of each. Only @kubernetes/client-node calls it: node:module is loaded by the first call.
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
  # Workers are found beside main.js.
  echo "import './workers/$name';" > "$stage/$name"
  include+=(--include "$stage/$name")
done

# What the program reads of itself (platform/build.ts): files of the tree, the commit, and the
# packages that the source maps of the bundle name.
for file in deploy/sluice.service deploy/config.yaml; do
  cp "$file" "$stage/"
  include+=(--include "$stage/${file#deploy/}")
done
commit=${COMMIT:-$(git describe --always --dirty --abbrev=40 --match '' 2>/dev/null || echo unknown)}
mkdir -p dist
"${deno[@]}" run --quiet --no-prompt --allow-read --allow-write="$stage,dist" --allow-env build/main.ts \
  "$maps/bundle" "$stage/build.json" dist/sluice.cdx.json "$commit" "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null)}" 2> >(grep -v 'npm warn' >&2)
include+=(--include "$stage/build.json")

# The executable keeps the times of the files that it carries.
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
find "$stage" -exec touch --date="@$epoch" {} +
# No code cache: Deno keeps it under a name that anybody can guess in a folder that anybody can write to, and Sluice is root.
"${deno[@]}" compile --quiet --no-config --no-lock --no-check --no-code-cache --unstable-worker-options "${permissions[@]}" \
  ${v8_flags:+"--v8-flags=$v8_flags"} "${include[@]}" --target "$target" --output "$executable" "$stage/main.js" 2> >(grep -v 'npm warn' >&2)

if [[ $(od -An -tu2 -j18 -N2 "$executable" | tr -d ' ') != "$machine" ]]; then
  rm "$executable"
  fail "$executable is no program for $target: DENORT_BIN=${DENORT_BIN:-} is the base binary of another target"
fi
for trace in "$root" "$stage" "$HOME/" fast-check; do
  if grep -qaF -- "$trace" "$executable"; then
    fail "$executable contains “$trace”: a trace of the machine it was built on, or of development"
  fi
done
grep -qaF "{\"commit\":\"$commit\"" "$executable" || fail "$executable does not carry the commit $commit"

# checksum NAME: writes dist/NAME.sha256.
checksum() { (cd dist && sha256sum "$1" > "$1.sha256"); }
checksum "sluice-$target"
made=$executable
if [[ $target == "$native" ]]; then
  "$executable" version -o json | grep -qF "\"commit\": \"$commit\"" || fail "$executable does not know that it was made of $commit"
  ln -f "$executable" dist/sluice
  checksum sluice
  made+=' and dist/sluice'
fi
bytes=$(stat -c %s "$executable")
printf '%s: %s bytes (%s MB), sha256 %s\n' "$made" "$bytes" "$((bytes / 1000000))" "$(cut -c1-16 "$executable.sha256")…"
