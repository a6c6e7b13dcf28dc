/**
 * The conformance scenarios in IPVS mode, on a kernel that has IPVS: in the virtual machine of `../shared/tools/vm-run`. And those
 * of tests/ipvs/scenarios, which need IPVS, or a kernel that nobody else uses.
 *
 *     deno task test:ipvs [--all] [PART OF A NAME]…
 *     deno task test:ipvs --model
 *     deno task test:ipvs --tools
 *
 * By default all scenarios of cluster IPs and one of each other group, as many as can be begun within ten minutes;
 * `--all` runs the whole set, which takes some 30 minutes. Compiles where there is no dist/sluice. The folder with the
 * conformance scenarios and the machine is SHARED (../shared). Ends with `N passed, N failed`.
 *
 * Before the scenarios, unless some are named, the fake tools of IPVS mode are compared with the real ones (tool_cases.ts);
 * `--tools` does that alone.
 *
 * `--model` runs the random histories of tests/chaos/model there instead, CHAOS_HISTORIES of them from the seed CHAOS_SEED.
 */
import { compareFakeTools } from "./fake_tools.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

/**
 * By default (parts of their names): one scenario of each of the conformance suite's files, then all of cluster IPs, our own, and
 * one of each kind that the files hold beside, as many as the time allows.
 */
const CHOSEN = [
  "nodeport: every address",
  "loadbalancer: loadBalancerSourceRanges",
  "affinity: ClientIP",
  "change: two services swap",
  "operate: --cleanup",
  "clusterip: ",
  "switch: ",
  "externalIPs: ",
  "endpoint churn: ",
  "restart: ",
  "conntrack: a UDP flow moves",
  "terminating: ",
  "topology: zone hints",
  "fault: ",
];

/**
 * Turns address randomization off. QEMU 7.2 translates code per virtual address: where a library's address differs from process
 * to process, each process pays for the translation again (starting /bin/true: 50 ms instead of 20).
 */
const FIXED_ADDRESSES = "sysctl -qw kernel.randomize_va_space=0";

/** By default no more scenarios are begun after this time; they take some 35 s each, two at a time. */
const BEGIN_WITHIN_SECONDS = 570;

/** The machine is emulated, some ten times slower than its host. */
const PATIENCE = 4;

/** Scenarios (parts of their names) that change a setting of the whole kernel run alone at the end; `--all` has every mode of them. */
const ALONE = ["conntrack: while the table is full"];
const MODES = ["ipvs", "nftables", "iptables"];

/** One start of the conformance suite's runner. */
interface Start {
  readonly mode: string;
  readonly name: string;
}

/**
 * What happens in the machine: two scenarios at a time, each in both families at once; then those that run alone.
 * @param beginWithinSeconds how long others than those alone may be begun
 */
function guestScript(together: readonly Start[], alone: readonly Start[], beginWithinSeconds: number): string {
  const words = (starts: readonly Start[]) => starts.flatMap(({ mode, name }) => [mode, quoted(name)]).join(" ");
  return `
    # The lab starts hundreds of programs: nothing is to come before the system's own on the PATH, no version manager's scripts.
    export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    ${FIXED_ADDRESSES}
    modprobe -a nf_conntrack ip_vs ip_vs_rr ip_vs_sh
    export LAB_PATIENCE=${PATIENCE} begun=$(date +%s)
    # one JOBS MODE NAME
    one() {
      [ -n "$2" ] || return 0
      if [ $(($(date +%s) - begun)) -gt ${beginWithinSeconds} ]; then echo "left out, for want of time: $3"; return; fi
      conformance/run --proxy "$PWD/sluice --config {config}" --dir conformance/scenarios --dir scenarios \\
        --mode "$2" --jobs "$1" --only "$3" 2>&1 | grep --line-buffered -v skipped
    }
    export -f one
    : > all
    printf '%s\\0' ${words(together)} | xargs -0 -r -n 2 -P 2 bash -c 'one 2 "$@"' _ > all &
    tail -n +1 -f --pid=$! all
    wait
    begun=$(date +%s)
    printf '%s\\0' ${words(alone)} | xargs -0 -r -n 2 bash -c 'one 1 "$@"' _
  `;
}

/** The random histories, in the machine; the project itself is seen there. */
function modelScript(binary: string): string {
  const given = ["CHAOS_SEED", "CHAOS_HISTORIES"].flatMap((name) => {
    const value = Deno.env.get(name);
    return value === undefined ? [] : [`${name}=${quoted(value)}`];
  });
  return `
    ${FIXED_ADDRESSES}
    modprobe -a nf_conntrack ip_vs ip_vs_rr
    cd ${quoted(ROOT)}
    LAB_PATIENCE=${PATIENCE} SLUICE_BINARY=${quoted(binary)} ${given.join(" ")} ${quoted(Deno.execPath())} \
      run --quiet --cached-only --no-check --allow-all tests/chaos/main.ts "model: random histories, ipvs"
  `;
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

/** The names of a folder's scenarios that apply to IPVS, in the order of their files. */
async function scenarioNames(folder: string): Promise<string[]> {
  const files = [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) => name.endsWith(".py")).sort();
  const texts = await Promise.all(files.map((name) => Deno.readTextFile(`${folder}/${name}`)));
  return texts.flatMap((text) =>
    [...text.matchAll(/^@scenario\("([^"]+)"(?:.*\bmodes=\(([^)]*)\))?/gm)]
      .filter(([, , modes]) => modes === undefined || modes.includes('"ipvs"')).map(([, name]) => name!)
  );
}

/** What a command is run with, beside its arguments. */
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

async function main(args: readonly string[]): Promise<number> {
  const all = args.includes("--all");
  const parts = args.filter((arg) => !arg.startsWith("--"));
  const shared = Deno.env.get("SHARED") ?? `${ROOT}../shared`;
  const binary = `${ROOT}dist/sluice`;
  const machine = `${shared}/tools/vm-run`;
  const comparesTools = args.includes("--tools") || (parts.length === 0 && !args.includes("--model"));
  const tools = comparesTools
    ? await compareFakeTools((script, folder) =>
      run(machine, ["bash", "-c", `${FIXED_ADDRESSES}\n${script}`], ROOT, { env: { VM_OUT: folder } })
    )
    : { passed: 0, failed: 0 };
  if (args.includes("--tools")) return conclude(tools.passed, tools.failed);
  const isCompiled = await Deno.stat(binary).then(() => true, () => false);
  if (!isCompiled && await run("./compile.sh", [], ROOT) !== 0) return 1;
  if (args.includes("--model")) return await run(machine, ["bash", "-c", modelScript(binary)], ROOT);
  // The machine sees the host's files, but not those in /tmp.
  const stage = await Deno.makeTempDir({ dir: "/var/tmp", prefix: "sluice-ipvs-" });
  let text = "";
  try {
    const copied = await run("cp", ["-r", binary, `${shared}/conformance`, "tests/ipvs/scenarios", stage], ROOT);
    if (copied !== 0) return copied;
    const folders = [`${stage}/conformance/scenarios`, `${stage}/scenarios`];
    const known = (await Promise.all(folders.map(scenarioNames))).flat();
    const wanted = parts.length > 0 ? parts : all ? [""] : [...CHOSEN, ...ALONE];
    const names = [...new Set(wanted.flatMap((part) => known.filter((name) => name.includes(part))))];
    const isAlone = (name: string) => ALONE.some((part) => name.includes(part));
    const starts = (chosen: readonly string[], modes: readonly string[]) =>
      chosen.flatMap((name) => modes.map((mode): Start => ({ mode, name })));
    const script = guestScript(
      starts(names.filter((name) => !isAlone(name)), ["ipvs"]),
      starts(names.filter(isAlone), all || parts.length > 0 ? MODES : ["ipvs"]),
      all ? 86_400 : BEGIN_WITHIN_SECONDS,
    );
    const onText = (piece: string) => {
      text += piece;
    };
    const code = await run(machine, ["bash", "-c", script], stage, { onText });
    if (code !== 0) console.log(`the machine ended with status ${code}`);
  } finally {
    await Deno.remove(stage, { recursive: true });
  }
  const count = (what: string) => text.match(new RegExp(`^${what} `, "gm"))?.length ?? 0;
  const passed = count("ok   ") + tools.passed;
  // A scenario that ends otherwise than by an expectation leaves a trace of Python's.
  const failed = count("FAIL ") + count("Traceback") + tools.failed;
  return conclude(passed, failed);
}

/** Prints how it went; the exit status. */
function conclude(passed: number, failed: number): number {
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0 && passed > 0 ? 0 : 1;
}

Deno.exit(await main(Deno.args));
