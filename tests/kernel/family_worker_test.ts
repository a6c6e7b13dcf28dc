/** The worker of a family with real tools: what its start waits for, and what its stop leaves behind. */
import assert from "node:assert/strict";
import { createProcessRunner } from "../../backends/tools/process_runner.ts";
import { systemClock } from "../../platform/clock.ts";
import { searchPath } from "../../platform/host.ts";
import { createPacking } from "../../workers/packed_delta.ts";
import type { StartMessage } from "../../workers/protocol.ts";
import { FAMILY_START } from "../fakes/family_start.ts";
import { following, startFamilyWorker } from "../fakes/family_worker.ts";
import { fakeServicePort, fakeSettings } from "../fakes/service_port.ts";
import { until } from "../fakes/wait.ts";

const REAL = ["iptables", "iptables-save", "iptables-restore", "conntrack"];

/** A script that notes its process ID in its folder and never ends. */
const HANGS = 'echo $$ > "${0%/*}/pid"; exec sleep 1000';

const START: StartMessage = { ...FAMILY_START, kernel: [{ name: "net.ipv4.ip_forward", value: 1 }] };

/** Runs a test with a worker that has these scripts as tools, besides the real ones of iptables. */
async function withTools(
  scripts: Readonly<Record<string, string>>,
  test: (worker: ReturnType<typeof startFamilyWorker>, folder: string) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  const real = Object.fromEntries(REAL.map((tool) => [tool, `PATH=/usr/sbin:/sbin:$PATH exec ${tool} "$@"`]));
  for (const [tool, script] of Object.entries({ ...real, ...scripts })) {
    await Deno.writeTextFile(`${folder}/${tool}`, `#!/bin/sh\nPATH=/usr/bin:/bin\n${script}\n`, { mode: 0o755 });
  }
  const worker = startFamilyWorker([...REAL, ...Object.keys(scripts)].map((tool) => `${folder}/${tool}`));
  worker.post({ type: "role", family: "IPv4", path: folder });
  try {
    await test(worker, folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** The text of a file; undefined without it. */
function textOf(path: string): string | undefined {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return undefined;
  }
}

/** Whether a tool has noted its process ID, which it first opens an empty file for. */
const hasStarted = (folder: string) => textOf(`${folder}/pid`)?.endsWith("\n") === true;

/** Whether a hanging tool has ended. */
const hasEnded = (folder: string) => textOf(`/proc/${textOf(`${folder}/pid`)!.trim()}/stat`) === undefined;

Deno.test("a kernel setting that hangs does not delay the start, and is given up at the stop", () =>
  withTools({ sysctl: HANGS }, async ({ worker, post }, folder) => {
    const next = following(worker);
    post(START);
    await next("ready");
    await until(() => hasStarted(folder));
    post({ type: "stop", keepWorker: true });
    await next("stopped");
    await until(() => hasEnded(folder));
    assert.match((await next("problems")).problems[0]!.detail, /the worker is stopping/);
    worker.terminate();
  }));

Deno.test("a start that awaits the kernel settings is ready once they are made, also soon after a stop", () =>
  withTools({ sysctl: 'sleep 1; echo made > "${0%/*}/made"' }, async ({ worker, post }, folder) => {
    const next = following(worker);
    for (let start = 0; start < 2; start++) {
      post({ ...START, kernelFirst: true });
      await next("ready");
      assert.equal(textOf(`${folder}/made`), "made\n");
      await Deno.remove(`${folder}/made`);
      post({ type: "stop", keepWorker: true });
      await next("stopped");
    }
    worker.terminate();
  }));

Deno.test("a stop kills a tool that hangs", () =>
  withTools({ "iptables-restore": HANGS }, async ({ worker, post }, folder) => {
    const next = following(worker);
    post(START);
    await until(() => hasStarted(folder));
    post({ type: "stop", keepWorker: true });
    await next("stopped");
    assert.ok(hasEnded(folder));
    worker.terminate();
  }));

/** A script that waits until its fifo is written, and then needs a moment. */
const WAITS = `cd "\${0%/*}"; mkfifo fifo; echo $$ > pid; read go < fifo; sleep 0.05; echo made > made`;

Deno.test("a stop lets a tool finish that needs only a moment more", () =>
  withTools({ "iptables-restore": WAITS }, async ({ worker, post }, folder) => {
    const next = following(worker);
    post(START);
    await until(() => hasStarted(folder));
    post({ type: "stop", keepWorker: true });
    await Deno.writeTextFile(`${folder}/fifo`, "go\n");
    await next("stopped");
    assert.equal(textOf(`${folder}/made`), "made\n");
    worker.terminate();
  }));

Deno.test("a worker writes changed endpoints of a large service port, compares when asked, and cleans up", () =>
  withTools({ sysctl: "exit 1" }, async ({ worker, post }) => {
    const next = following(worker), pack = createPacking();
    const endpoints = Array.from({ length: 200 }, (_, i) => `10.1.0.${i}:80`);
    const sync = async (base: number | undefined, clusterEndpoints: readonly string[]) => {
      const revision = (base ?? 0) + 1, settings = base === undefined ? fakeSettings() : undefined;
      const set = [fakeServicePort("shop/web:http", { clusterEndpoints })];
      post({ type: "sync", delta: pack({ revision, base, settings, set, deleted: [] }) });
      const { report } = await next("report");
      assert.deepEqual([report.revision, report.ok], [revision, true], JSON.stringify(report.problems));
      assert.ok(report.counts.chains_written! > 0);
    };
    post(FAMILY_START);
    await next("ready");
    await sync(undefined, endpoints);
    await sync(1, endpoints.slice(1));
    post({ type: "compare" });
    assert.equal((await next("report")).report.full, true);
    post({ type: "cleanup" });
    assert.equal((await next("cleaned")).problem, undefined);
    post({ type: "stop", keepWorker: true });
    await next("stopped");
    worker.terminate();
  }));

Deno.test("a worker that is stopped runs on for its sibling, the worker of the other family", async () => {
  const { worker, post } = startFamilyWorker("all"), next = following(worker);
  const { port1, port2 } = new MessageChannel(), nextOfSibling = following(port1);
  post({ type: "role", family: "IPv4", path: "/nowhere" });
  post({ type: "start-sibling", number: 1, port: port2 }, port2);
  for (let pings = 0; pings < 2; pings++) {
    port1.postMessage({ type: "ping" });
    await nextOfSibling("pong");
    post({ type: "stop", keepWorker: false });
    await next("stopped");
  }
  port1.postMessage(FAMILY_START);
  assert.match((await nextOfSibling("setup-failed")).reason, /iptables mode cannot serve IPv6 on this host/);
  post({ type: "end-sibling" });
  post({ type: "ping" });
  await next("pong");
  const ofSecond = new MessageChannel();
  post({ type: "start-sibling", number: 2, port: ofSecond.port2 }, ofSecond.port2);
  const messages: unknown[] = [];
  port1.onmessage = ({ data }) => messages.push(data);
  port1.postMessage({ type: "ping" });
  ofSecond.port1.postMessage({ type: "ping" });
  await following(ofSecond.port1)("pong");
  assert.deepEqual(messages, [], "the first sibling has ended");
  for (const port of [port1, ofSecond.port1]) port.close();
  worker.terminate();
});

/** A program that runs as long as its worker does, in which two calls fail, and a sibling starts and ends. */
const PROGRAM = `
import { FAMILY_START } from ${JSON.stringify(new URL("../fakes/family_start.ts", import.meta.url))};
import { following, startFamilyWorker } from ${JSON.stringify(new URL("../fakes/family_worker.ts", import.meta.url))};
const { worker, post } = startFamilyWorker("all"), next = following(worker);
post({ type: "role", family: "IPv4", path: "/nowhere" });
post({ ...FAMILY_START, logLevel: "warn" });
for (const number of [1, 2]) {
  post({ type: "call", number, name: "readPacketCounts", request: undefined });
  await next("answered");
}
const { port1, port2 } = new MessageChannel(), nextOfSibling = following(port1);
post({ type: "start-sibling", number: 3, port: port2 }, port2);
port1.postMessage({ type: "ping" });
await nextOfSibling("pong");
port1.close();
post({ type: "end-sibling" });
post({ type: "stop", keepWorker: false });
await next("stopped");
`;

Deno.test("a worker that is not kept logs the number of repeated messages, and ends", async () => {
  const runner = createProcessRunner({ clock: systemClock, path: searchPath() });
  const { exitCode, stderr } = await runner.run({
    tool: Deno.execPath(),
    args: ["run", "--quiet", "--no-check", "--allow-all", "--unstable-worker-options", "-"],
    env: Deno.env.toObject(),
    stdin: [PROGRAM],
    timeoutMs: 60_000,
  });
  assert.equal(exitCode, 0, stderr);
  assert.equal(stderr.match(/call not answered .*/g)?.length, 2);
  assert.match(stderr, /call not answered .* times=1$/m);
  assert.match(stderr, /setup failed, retrying .* inSeconds=0\.\d$/m);
});
