/**
 * Measures what a site of nodes costs on its line, and how long changes take when the leader is killed and the line is cut. Runs in
 * the namespace of the LAN, which `run` creates:
 *
 *   main.ts FOLDER NODES SERVICES SECONDS
 */
import { sleep, systemClock } from "../../../platform/clock.ts";
import { createCertificateAuthority } from "../../fakes/certificates.ts";
import { lineStream } from "../../scale/lines.ts";

const [folder = "", ...numbers] = Deno.args;
const [nodes = 20, services = 300, seconds = 90] = numbers.map(Number);
const sluice = (Deno.env.get("SLUICE") ?? "dist/sluice").split(" ");
const deno = Deno.execPath();

const API = "10.99.0.1";
const LEASE_MS = 10_000;
/** Changes a second during a measurement. */
const CHANGES = Number(Deno.env.get("CHANGES") ?? 1);
/** The time between two looks at a node: each one costs it CPU, which all nodes of the lab share. */
const POLL_MS = Math.max(250, nodes * 50);

/** The answer of the API server's process. */
interface ApiAnswer {
  readonly holder: string | undefined;
  readonly writtenMs: number;
  readonly requests: Readonly<Record<string, number>>;
}

interface RunningNode {
  readonly index: number;
  readonly process: Deno.ChildProcess;
}

const authority = await createCertificateAuthority("sites");
const write = (name: string, text: string) => {
  Deno.writeTextFileSync(`${folder}/${name}`, text);
  return `${folder}/${name}`;
};
const ca = write("ca.pem", authority.cert);

async function certificate(name: string, address: string): Promise<{ readonly crt: string; readonly key: string }> {
  const { cert, key } = await authority.issue(name, 3, address);
  return { crt: write(`${name}.crt`, cert), key: write(`${name}.key`, key) };
}

function inNamespace(name: string, command: readonly string[], options: Deno.CommandOptions = {}): Deno.ChildProcess {
  return new Deno.Command("ip", { args: ["netns", "exec", name, ...command], ...options }).spawn();
}

async function startApi() {
  const { crt, key } = await certificate("api", API);
  const script = new URL("api.ts", import.meta.url).pathname;
  const args = [API, services, nodes, crt, key].map(String);
  const child = inNamespace("sites-api", [deno, "run", "-A", "--quiet", "--no-check", script, ...args], {
    stdin: "piped",
    stdout: "piped",
  });
  const writer = child.stdin.getWriter();
  const lines = child.stdout.pipeThrough(new TextDecoderStream()).pipeThrough(lineStream()).getReader();
  return {
    async ask(line: string): Promise<ApiAnswer> {
      await writer.write(new TextEncoder().encode(`${line}\n`));
      const { value } = await lines.read();
      if (value === undefined) throw new Error("the API server has ended");
      return JSON.parse(value);
    },
    async end() {
      await writer.close();
      await child.status;
    },
  };
}

function kubeconfig(): string {
  const data = btoa(authority.cert);
  const cluster = { server: `https://${API}:6443`, "certificate-authority-data": data };
  return write(
    "kubeconfig",
    JSON.stringify({
      apiVersion: "v1",
      kind: "Config",
      clusters: [{ name: "lab", cluster }],
      users: [{ name: "lab", user: { token: "t".repeat(900) } }],
      contexts: [{ name: "lab", context: { cluster: "lab", user: "lab" } }],
      "current-context": "lab",
    }),
  );
}

async function startNode(index: number, withSite: boolean): Promise<RunningNode> {
  const address = `10.20.0.${index + 1}`;
  const { crt, key } = await certificate(`node-${index}`, address);
  const site = withSite
    ? ["--site", "lab", "--site-tls-ca", ca, "--site-tls-crt", crt, "--site-tls-key", key]
    : ["--state-delay", "1s"];
  const log = await Deno.open(`${folder}/node-${index}.log`, { create: true, append: true, write: true });
  const process = inNamespace(`sites-${index}`, [
    ...sluice,
    ...["--kubeconfig", `${folder}/kubeconfig`, "--hostname-override", `node-${index}`, "--proxy-mode", "nftables"],
    ...["--metrics-bind-address", "0.0.0.0:10249", "--control-socket", "", "--oom-score-adj", "0"],
    ...["--state-directory", `${folder}/state-${index}`],
    ...site,
  ], { stdout: "null", stderr: "piped" });
  void process.stderr.pipeTo(log.writable).catch(() => {});
  return { index, process };
}

/** The sum of the series of a metric of a node; undefined if the node does not answer. */
async function metric(index: number, name: string): Promise<number | undefined> {
  try {
    const answer = await fetch(`http://10.20.0.${index + 1}:10249/metrics`, { signal: AbortSignal.timeout(2000) });
    const lines = (await answer.text()).split("\n").filter((line) =>
      line.startsWith(`${name} `) || line.startsWith(`${name}{`)
    );
    return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
  } catch {
    return undefined;
  }
}

const changesOf = (index: number) => metric(index, "kubeproxy_sync_proxy_rules_endpoint_changes_total");

/** Resolves with the time in milliseconds until each node meets the condition; undefined for those that do not within `ms`. */
async function untilEach(
  indexes: readonly number[],
  ms: number,
  isDone: (index: number) => Promise<boolean>,
): Promise<ReadonlyMap<number, number | undefined>> {
  const startMs = systemClock.monotonic();
  const times = new Map<number, number | undefined>(indexes.map((index) => [index, undefined]));
  await Promise.all(indexes.map(async (index) => {
    while (systemClock.monotonic() - startMs < ms) {
      if (await isDone(index)) return times.set(index, systemClock.monotonic() - startMs);
      await sleep(systemClock, POLL_MS);
    }
  }));
  return times;
}

/** The bytes that have crossed the line in both directions, with the headers of Ethernet. */
function lineBytes(): number {
  const read = (name: string) => Number(Deno.readTextFileSync(`/sys/class/net/line0/statistics/${name}_bytes`));
  return read("rx") + read("tx");
}

/** The number of elements in the nftables sets and maps of a node, which serve its services. */
async function elementsOf(index: number): Promise<number> {
  const args = ["netns", "exec", `sites-${index}`, "nft", "list", "table", "ip", "sluice"];
  const { stdout } = await new Deno.Command("ip", { args }).output();
  return new TextDecoder().decode(stdout).split(" : ").length;
}

/** Lets nothing pass the line any more, without an error for those who try, or everything again. */
async function cutLine(isCut: boolean): Promise<void> {
  for (const direction of ["-i", "-o"]) {
    const args = [isCut ? "-I" : "-D", "FORWARD", direction, "line0", "-j", "DROP"];
    const { success } = await new Deno.Command("iptables", { args }).output();
    if (!success) throw new Error(`iptables ${args.join(" ")} failed`);
  }
}

function print(name: string, values: Readonly<Record<string, unknown>>): void {
  console.log(JSON.stringify({ name, ...values }));
}

const seconds1 = (ms: number | undefined) => ms === undefined ? undefined : Math.round(ms / 100) / 10;

function summary(times: ReadonlyMap<number, number | undefined>) {
  const known = [...times.values()].filter((ms) => ms !== undefined).sort((a, b) => a - b);
  return { of: times.size, reached: known.length, firstS: seconds1(known[0]), lastS: seconds1(known.at(-1)) };
}

/** Starts nodes, changes endpoints, and returns the bytes on the line. */
async function measure(
  name: string,
  api: Awaited<ReturnType<typeof startApi>>,
  indexes: readonly number[],
  withSite: boolean,
) {
  const beforeBytes = lineBytes();
  const startMs = systemClock.monotonic();
  const running = await Promise.all(indexes.map((index) => startNode(index, withSite)));
  const ready = await untilEach(indexes, 120_000, async (index) => (await changesOf(index) ?? 0) >= services);
  const joinedBytes = lineBytes() - beforeBytes;
  const joinedS = seconds1(systemClock.monotonic() - startMs);
  for (let second = 0; second < seconds; second++) {
    if (CHANGES > 0) await api.ask(`change ${CHANGES}`);
    await sleep(systemClock, 1000);
  }
  const { requests } = await api.ask("lease");
  const bytes = lineBytes() - beforeBytes;
  print(name, {
    nodes: indexes.length,
    joinedS,
    joinedBytes,
    seconds,
    CHANGES,
    bytes,
    ready: summary(ready),
    requests,
  });
  return { running, bytes };
}

async function stop(running: readonly RunningNode[], signal: Deno.Signal): Promise<void> {
  for (const { index } of running) {
    const { stdout } = await new Deno.Command("ip", { args: ["netns", "pids", `sites-${index}`] }).output();
    for (const pid of new TextDecoder().decode(stdout).split("\n").filter(Boolean)) Deno.kill(Number(pid), signal);
  }
  await Promise.all(running.map(({ process }) => process.status));
}

kubeconfig();
const api = await startApi();
await api.ask("lease");
const all = Array.from({ length: nodes }, (_, index) => index);

const one = await measure("one watch", api, [0], false);
await stop(one.running, "SIGTERM");
Deno.removeSync(`${folder}/state-0`, { recursive: true });

const site = await measure("site", api, all, true);
print("ratio", { bytes: Math.round(100 * site.bytes / one.bytes) / 100 });

// The leader dies. A change every second; the first that a node sees ends its wait.
const { holder, writtenMs } = await api.ask("lease");
const leader = Number(holder?.slice("node-".length));
const leaseEndMs = writtenMs + LEASE_MS;
await stop([site.running[leader]!], "SIGKILL");
const others = all.filter((index) => index !== leader);
await sleep(systemClock, 1000);
const counts = new Map(await Promise.all(others.map(async (index) => [index, await changesOf(index) ?? 0] as const)));
let isOver = false;
const changing = (async () => {
  while (!isOver) {
    await api.ask("change 1");
    await sleep(systemClock, 1000);
  }
})();
const fromMs = systemClock.now();
const arrived = await untilEach(others, 90_000, async (index) => (await changesOf(index) ?? 0) > counts.get(index)!);
isOver = true;
await changing;
const late = new Map([...arrived].map(([index, ms]) => [index, ms === undefined ? ms : fromMs + ms - leaseEndMs]));
print("leader killed: first change after the end of the Lease", summary(late));

// The line is cut; all nodes restart at once, and all but one that has lost its disk have everything from the site.
const next = await api.ask("lease");
await cutLine(true);
const second = Number(next.holder?.slice("node-".length));
const restarted = [second, ...others.filter((index) => index !== second)];
await stop(restarted.map((index) => site.running[index]!), "SIGKILL");
const diskless = restarted.at(-1)!;
const withDisk = restarted.slice(0, -1);
Deno.removeSync(`${folder}/state-${diskless}`, { recursive: true });
const servedBefore = await elementsOf(diskless);
await Promise.all(restarted.map((index) => startNode(index, true)));
const rejoined = await untilEach(withDisk, 60_000, async (index) => (await changesOf(index) ?? 0) >= services);
print("line cut: restarted nodes have all services", { ...summary(rejoined), times: Object.fromEntries(rejoined) });
const fresh = withDisk.slice(1);
const following = await untilEach(fresh, 30_000, async (index) => await metric(index, "sluice_source_connected") === 1);
print("line cut: restarted followers are connected to the leader", summary(following));

print("line cut: the node without a disk serves on", { before: servedBefore, after: await elementsOf(diskless) });

// The line returns.
await cutLine(false);
const found = await untilEach([diskless], 60_000, async (index) => (await changesOf(index) ?? 0) >= services);
print("line restored: the node without a disk has all services", summary(found));
const living = others;
const before = new Map(await Promise.all(living.map(async (index) => [index, await changesOf(index) ?? 0] as const)));
await api.ask("change 20");
const back = await untilEach(living, 60_000, async (index) => (await changesOf(index) ?? 0) > before.get(index)!);
print("line restored: changes arrive", summary(back));
await api.end();
Deno.exit(0);
