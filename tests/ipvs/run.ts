/**
 * Runs the conformance scenarios in IPVS mode in the virtual machine of `../shared/tools/vm-run`, whose kernel has IPVS, and
 * those of tests/ipvs/scenarios, which need IPVS or an otherwise unused kernel.
 *
 *     deno task test:ipvs [--all] [PART OF A NAME]…
 *     deno task test:ipvs --model
 *     deno task test:ipvs --tools
 *
 * By default runs all scenarios of cluster IPs and one of each other group, and starts none after ten minutes; `--all` runs
 * the whole set, which takes about 30 minutes. Compiles dist/sluice if it does not exist. SHARED (../shared) is the folder
 * with the conformance scenarios and the virtual machine. Ends with `N passed, N failed`.
 *
 * Unless scenarios are named, first compares the fake tools of IPVS mode with the real ones (tool_cases.ts); `--tools` does
 * only that.
 *
 * KUBE_PROXY is an executable of kube-proxy, for the scenario that takes over from its ipvs mode; left out by default.
 *
 * `--model` runs CHAOS_HISTORIES random histories of tests/chaos/model with the seed CHAOS_SEED instead.
 */
import { compareFakeTools } from "./fake_tools.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

/**
 * Parts of the names of the default scenarios, in order: one from each file of the conformance suite, all of cluster IPs,
 * those of tests/ipvs, and one of each remaining kind.
 */
const DEFAULT_SCENARIOS = [
  "nodeport: every address",
  "nodeport: a Service limits",
  "loadbalancer: loadBalancerSourceRanges",
  "affinity: ClientIP",
  "change: two services swap",
  "operate: --cleanup",
  "canary: ",
  "clusterip: ",
  "switch: ",
  "leave: ",
  "externalIPs: ",
  "endpoint churn: ",
  "restart: ",
  "conntrack: a UDP flow moves",
  "terminating: ",
  "topology: zone hints",
  "traffic: ",
  "fault: ",
  "departure: ",
];

/**
 * Disables address space randomization. QEMU 7.2 caches translated code by virtual address, so a library at a new address
 * in every process is translated again each time (starting /bin/true: 50 ms instead of 20).
 */
const FIXED_ADDRESSES = "sysctl -qw kernel.randomize_va_space=0";

/** By default no scenario starts after this time; each takes about 35 s, two at a time. */
const START_WITHIN_SECONDS = 570;

/** LAB_PATIENCE in the virtual machine, which is emulated and about ten times slower than its host. */
const TIMEOUT_FACTOR = 4;

/** Parts of the names of scenarios that change a kernel-wide setting; they run alone at the end, with `--all` in every mode. */
const ALONE = ["conntrack: while the table is full"];
const MODES = ["ipvs", "nftables", "iptables"];

/** One invocation of the conformance suite's runner. */
interface Invocation {
  readonly mode: string;
  readonly name: string;
}

/**
 * The script for the virtual machine: two scenarios at a time, each in both families at once; then those that run alone.
 * @param startWithinSeconds time after which no scenario of `together` starts
 */
function guestScript(
  together: readonly Invocation[],
  alone: readonly Invocation[],
  startWithinSeconds: number,
): string {
  const words = (starts: readonly Invocation[]) => starts.flatMap(({ mode, name }) => [mode, quoted(name)]).join(" ");
  return `
    # The lab starts hundreds of programs: keep slow wrapper scripts of version managers off the PATH.
    export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    ${FIXED_ADDRESSES}
    modprobe -a nf_conntrack ip_vs ip_vs_rr ip_vs_sh
    export LAB_PATIENCE=${TIMEOUT_FACTOR} started=$(date +%s)
    if [ -e kube-proxy ]; then export KUBE_PROXY=$PWD/kube-proxy; fi
    # one JOBS MODE NAME
    one() {
      [ -n "$2" ] || return 0
      if [ $(($(date +%s) - started)) -gt ${startWithinSeconds} ]; then echo "skipped, out of time: $3"; return; fi
      conformance/run --proxy "$PWD/sluice --config {config}" --dir conformance/scenarios --dir scenarios \\
        --mode "$2" --jobs "$1" --only "$3" 2>&1 | grep --line-buffered -v skipped
    }
    export -f one
    : > all
    printf '%s\\0' ${words(together)} | xargs -0 -r -n 2 -P 2 bash -c 'one 2 "$@"' _ > all &
    tail -n +1 -f --pid=$! all
    wait
    started=$(date +%s)
    printf '%s\\0' ${words(alone)} | xargs -0 -r -n 2 bash -c 'one 1 "$@"' _
  `;
}

/** The script that runs the random histories in the virtual machine, which sees this repository. */
function modelScript(binary: string): string {
  const variables = ["CHAOS_SEED", "CHAOS_HISTORIES"].flatMap((name) => {
    const value = Deno.env.get(name);
    return value === undefined ? [] : [`${name}=${quoted(value)}`];
  });
  return `
    ${FIXED_ADDRESSES}
    modprobe -a nf_conntrack ip_vs ip_vs_rr
    cd ${quoted(ROOT)}
    LAB_PATIENCE=${TIMEOUT_FACTOR} SLUICE_BINARY=${quoted(binary)} ${variables.join(" ")} ${quoted(Deno.execPath())} \
      run --quiet --cached-only --no-check --allow-all tests/chaos/main.ts "model: random histories, ipvs"
  `;
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

/** The names of a folder's scenarios that support IPVS mode, ordered by file. */
async function scenarioNames(folder: string): Promise<string[]> {
  const files = [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) => name.endsWith(".py")).sort();
  const texts = await Promise.all(files.map((name) => Deno.readTextFile(`${folder}/${name}`)));
  return texts.flatMap((text) =>
    [...text.matchAll(/^@scenario\("([^"]+)"(?:.*\bmodes=\(([^)]*)\))?/gm)]
      .filter(([, , modes]) => modes === undefined || modes.includes('"ipvs"')).map(([, name]) => name!)
  );
}

/** Options of `run`. */
interface RunOptions {
  readonly onText?: (text: string) => void;
  readonly env?: Record<string, string>;
}

async function run(command: string, args: readonly string[], cwd: string, { onText, env }: RunOptions = {}) {
  const child = new Deno.Command(command, { args: [...args], cwd, env, stdout: onText ? "piped" : "inherit" }).spawn();
  if (onText) {
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      onText(text);
      Deno.stdout.writeSync(new TextEncoder().encode(text));
    }
  }
  const { code } = await child.status;
  return code;
}

/** Starts the machine again if it died before it ran anything: QEMU 7.2 sometimes aborts at the boot (hw/pci/msix.c). */
async function onceMore(start: () => Promise<number>, hasRun: () => boolean | Promise<boolean>): Promise<number> {
  const code = await start();
  return code === 0 || await hasRun() ? code : await start();
}

function exists(path: string): Promise<boolean> {
  return Deno.stat(path).then(() => true, () => false);
}

async function main(args: readonly string[]): Promise<number> {
  const all = args.includes("--all");
  const parts = args.filter((arg) => !arg.startsWith("--"));
  const shared = Deno.env.get("SHARED") ?? `${ROOT}../shared`;
  const binary = `${ROOT}dist/sluice`;
  const machine = `${shared}/tools/vm-run`;
  const comparesTools = args.includes("--tools") || (parts.length === 0 && !args.includes("--model"));
  const tools = comparesTools
    ? await compareFakeTools((script, folder) => {
      const start = () =>
        run(machine, ["bash", "-c", `${FIXED_ADDRESSES}\n${script}`], ROOT, { env: { VM_OUT: folder } });
      return onceMore(start, () => exists(`${folder}/.status`));
    })
    : { passed: 0, failed: 0 };
  if (args.includes("--tools")) return printTotals(tools.passed, tools.failed);
  if (!await exists(binary) && await run("./compile.sh", [], ROOT) !== 0) return 1;
  if (args.includes("--model")) return await run(machine, ["bash", "-c", modelScript(binary)], ROOT);
  // The guest sees the host's files except /tmp.
  const stage = await Deno.makeTempDir({ dir: "/var/tmp", prefix: "sluice-ipvs-" });
  let text = "";
  try {
    const copied = await run("cp", ["-r", binary, `${shared}/conformance`, "tests/ipvs/scenarios", stage], ROOT);
    if (copied !== 0) return copied;
    const kubeProxy = Deno.env.get("KUBE_PROXY");
    if (kubeProxy !== undefined) await Deno.copyFile(kubeProxy, `${stage}/kube-proxy`);
    const folders = [`${stage}/conformance/scenarios`, `${stage}/scenarios`];
    const known = (await Promise.all(folders.map(scenarioNames))).flat();
    const wanted = parts.length > 0 ? parts : all ? [""] : [...DEFAULT_SCENARIOS, ...ALONE];
    const names = [...new Set(wanted.flatMap((part) => known.filter((name) => name.includes(part))))];
    const isAlone = (name: string) => ALONE.some((part) => name.includes(part));
    const starts = (chosen: readonly string[], modes: readonly string[]) =>
      chosen.flatMap((name) => modes.map((mode): Invocation => ({ mode, name })));
    const script = guestScript(
      starts(names.filter((name) => !isAlone(name)), ["ipvs"]),
      starts(names.filter(isAlone), all || parts.length > 0 ? MODES : ["ipvs"]),
      all ? 86_400 : START_WITHIN_SECONDS,
    );
    const onText = (piece: string) => {
      text += piece;
    };
    const code = await onceMore(() => run(machine, ["bash", "-c", script], stage, { onText }), () => text !== "");
    if (code !== 0) console.log(`the virtual machine exited with status ${code}`);
  } finally {
    await Deno.remove(stage, { recursive: true });
  }
  const count = (what: string) => text.match(new RegExp(`^${what} `, "gm"))?.length ?? 0;
  const passed = count("ok   ") + tools.passed;
  // A scenario that crashes prints a Python traceback instead of FAIL.
  const failed = count("FAIL ") + count("Traceback") + tools.failed;
  return printTotals(passed, failed);
}

/** Prints the totals and returns the exit status. */
function printTotals(passed: number, failed: number): number {
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0 && passed > 0 ? 0 : 1;
}

Deno.exit(await main(Deno.args));
