/**
 * The conformance scenarios in IPVS mode, on a kernel that has IPVS: in the virtual machine of `../shared/tools/vm-run`. And, in
 * every mode, the scenarios of tests/own_kernel, which need a kernel that nobody else uses.
 *
 *     deno task test:ipvs [--all] [PART OF A NAME]…
 *
 * By default all scenarios of cluster IPs and one of each other group, as many as can be begun within ten minutes;
 * `--all` runs the whole set, which takes some 30 minutes. Compiles where there is no dist/sluice. The folder with the
 * conformance scenarios and the machine is SHARED (../shared). Ends with `N passed, N failed`.
 */
const ROOT = new URL("../../", import.meta.url).pathname;

/**
 * By default (parts of their names): one scenario of each of the conformance suite's files, then all of cluster IPs, then one of
 * each kind that the files hold beside, as many as the time allows.
 */
const CHOSEN = [
  "nodeport: every address",
  "loadbalancer: loadBalancerSourceRanges",
  "affinity: ClientIP",
  "change: two services swap",
  "operate: --cleanup",
  "clusterip: ",
  "externalIPs: ",
  "endpoint churn: ",
  "restart: ",
  "conntrack: a UDP flow moves",
  "terminating: ",
  "topology: zone hints",
  "fault: ",
];

/** By default no more scenarios are begun after this time; they take some 35 s each, two at a time. */
const BEGIN_WITHIN_SECONDS = 590;

/** The machine is emulated, some ten times slower than its host. */
const PATIENCE = 4;

/** The folder of the scenarios that change a setting of the whole kernel, and the modes that they run in, each alone. */
const OWN_KERNEL = { folder: "own_kernel", modes: ["ipvs", "nftables", "iptables"] };

/** One start of the conformance suite's runner. */
interface Start {
  readonly name: string;
  readonly folder: string;
  readonly mode: string;
}

/**
 * What happens in the machine: two scenarios at a time, each in both families at once; then those that run alone.
 * @param beginWithinSeconds how long others than those alone may be begun
 */
function guestScript(together: readonly Start[], alone: readonly Start[], beginWithinSeconds: number): string {
  const words = (starts: readonly Start[]) =>
    starts.flatMap(({ folder, mode, name }) => [folder, mode, `'${name.replaceAll("'", `'\\''`)}'`]).join(" ");
  return `
    # The lab starts hundreds of programs: nothing is to come before the system's own on the PATH, no version manager's scripts.
    export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    modprobe -a nf_conntrack ip_vs ip_vs_rr ip_vs_sh
    export LAB_PATIENCE=${PATIENCE} begun=$(date +%s)
    # one JOBS FOLDER MODE NAME
    one() {
      [ -n "$2" ] || return
      if [ $(($(date +%s) - begun)) -gt ${beginWithinSeconds} ]; then echo "left out, for want of time: $4"; return; fi
      conformance/run --proxy "$PWD/sluice --config {config}" --dir "$2" --mode "$3" --jobs "$1" --only "$4" 2>&1 |
        grep --line-buffered -v skipped
    }
    export -f one
    : > all
    printf '%s\\0' ${words(together)} | xargs -0 -r -n 3 -P 2 bash -c 'one 2 "$@"' _ > all &
    tail -n +1 -f --pid=$! all
    wait
    begun=$(date +%s)
    printf '%s\\0' ${words(alone)} | xargs -0 -r -n 3 bash -c 'one 1 "$@"' _
  `;
}

/** The names of all scenarios in a folder, in the order of their files. */
async function scenarioNames(folder: string): Promise<string[]> {
  const files = [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) => name.endsWith(".py")).sort();
  const texts = await Promise.all(files.map((name) => Deno.readTextFile(`${folder}/${name}`)));
  return texts.flatMap((text) => [...text.matchAll(/^@scenario\("([^"]+)"/gm)].map(([, name]) => name!));
}

async function run(command: string, args: readonly string[], cwd: string, onText?: (text: string) => void) {
  const child = new Deno.Command(command, { args: [...args], cwd, stdout: onText ? "piped" : "inherit" }).spawn();
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
  const isCompiled = await Deno.stat(binary).then(() => true, () => false);
  if (!isCompiled && await run("./compile.sh", [], ROOT) !== 0) return 1;
  // The machine sees the host's files, but not those in /tmp.
  const stage = await Deno.makeTempDir({ dir: "/var/tmp", prefix: "sluice-ipvs-" });
  let text = "";
  try {
    const copied = await run("cp", ["-r", binary, `${shared}/conformance`, `tests/${OWN_KERNEL.folder}`, stage], ROOT);
    if (copied !== 0) return copied;
    const folder = "conformance/scenarios";
    const known = await scenarioNames(`${stage}/${folder}`);
    const wanted = parts.length > 0 ? parts : all ? [""] : CHOSEN;
    const names = [...new Set(wanted.flatMap((part) => known.filter((name) => name.includes(part))))];
    const ownKernel = (await scenarioNames(`${stage}/${OWN_KERNEL.folder}`))
      .filter((name) => parts.length === 0 || parts.some((part) => name.includes(part)))
      .flatMap((name) => OWN_KERNEL.modes.map((mode) => ({ name, folder: OWN_KERNEL.folder, mode })));
    const together = names.map((name) => ({ name, folder, mode: "ipvs" }));
    const script = guestScript(together, ownKernel, all ? 86_400 : BEGIN_WITHIN_SECONDS);
    const code = await run(`${shared}/tools/vm-run`, ["bash", "-c", script], stage, (piece) => {
      text += piece;
    });
    if (code !== 0) console.log(`the machine ended with status ${code}`);
  } finally {
    await Deno.remove(stage, { recursive: true });
  }
  const count = (what: string) => text.match(new RegExp(`^${what} `, "gm"))?.length ?? 0;
  const passed = count("ok   "), failed = count("FAIL ");
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0 && passed > 0 ? 0 : 1;
}

Deno.exit(await main(Deno.args));
