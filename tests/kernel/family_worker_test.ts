/** The worker of a family with real tools: what its start waits for, and what its stop leaves behind. */
import assert from "node:assert/strict";
import type { StartMessage } from "../../workers/protocol.ts";
import { FAMILY_START } from "../fakes/family_start.ts";
import { following, startFamilyWorker } from "../fakes/family_worker.ts";
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

/** Resolves when a hanging tool has ended. */
const endOf = (folder: string) => until(() => textOf(`/proc/${textOf(`${folder}/pid`)!.trim()}/stat`) === undefined);

Deno.test("a kernel setting that hangs does not delay the start, and is given up at the stop", () =>
  withTools({ sysctl: HANGS }, async ({ worker, post }, folder) => {
    const next = following(worker);
    post(START);
    await next("ready");
    await until(() => textOf(`${folder}/pid`) !== undefined);
    post({ type: "stop", keepWorker: true });
    await next("stopped");
    await endOf(folder);
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

Deno.test("a stop kills a tool that hangs, and ends the worker", () =>
  withTools({ "iptables-restore": HANGS }, async ({ worker, post }, folder) => {
    const next = following(worker);
    post(START);
    await until(() => textOf(`${folder}/pid`) !== undefined);
    post({ type: "stop", keepWorker: false });
    await next("stopped");
    await endOf(folder);
    // A worker that still ran would be reported as one that this test has not terminated.
  }));
