/**
 * Breaks a node in every way that users have, and prints how long Sluice needs to say so, and to be green after the repair:
 *
 *     deno task test:truth [--gate] [--list] [PART OF A NAME]…
 *
 * Runs the executable at SLUICE_BINARY, or the source, with the canary, failure detection, and the kept state on, under TLS.
 * CHAOS_SEED and LAB_PATIENCE as in test:chaos.
 */
import { existsSync } from "node:fs";
import { isIsolated, isolate, ISOLATED_PROGRAMS } from "../../demo/isolate.ts";
import { program } from "../../demo/sluice.ts";
import { errorText } from "../../platform/log.ts";
import { sleep, systemClock } from "../../platform/clock.ts";
import { change, cluster } from "../chaos/cluster.ts";
import { type KernelSnapshot, takeSnapshot } from "../chaos/kernel.ts";
import { API_LINK, type ChaosLab, withLab } from "../chaos/lab.ts";
import { type ChaosSluice, startSluice } from "../chaos/sluice.ts";
import { MODES } from "../chaos/scenario.ts";
import { startTlsProxy } from "../chaos/tls_proxy.ts";
import { createToolFolder } from "../chaos/tool_folder.ts";
import { TIMEOUT_FACTOR, waitFor } from "../chaos/wait.ts";
import { createCertificateAuthority } from "../fakes/certificates.ts";
import { attempt, runScenarios } from "../scenario_runner.ts";
import { randomOf } from "../seed.ts";
import type { Result } from "../suite.ts";
import { type Fault, FAULTS, type Mode, type Patient, settle } from "./faults.ts";
import type { Look } from "./looker.ts";

/** Sluice and the helper programs that the suite starts. */
const PROGRAMS = [...ISOLATED_PROGRAMS, "tests/chaos/tls_proxy.ts", "tests/truth/looker.ts"];

const SERVICES = 100;
/** Most seconds from the repair to green: the longest backoff of the API's client, and a sync. */
const GREEN_WITHIN_S = 45;
/** Most seconds from a fault to the truth. */
const SHOWN_WITHIN_S = 15;
/** How long a harmless fault is watched. */
const HARMLESS_FOR_MS = 8_000;
/** The exit status of `sluice status` for a stopped process. */
const STOPPED = 3;
const VIEWS: readonly View[] = ["status", "fix", "healthz", "page", "metrics", "log"];

/** The newest look at Sluice. */
interface Eyes {
  last(): Look | undefined;
}

function open(lab: ChaosLab): Eyes {
  const looker = new URL("./looker.ts", import.meta.url).pathname;
  const command = [Deno.execPath(), "run", "--quiet", "--cached-only", "--no-check", "--allow-all", looker];
  const child = lab.start("node", [...command, ...program()], { stdout: "piped" });
  let last: Look | undefined;
  void (async () => {
    let rest = "";
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + text).split("\n");
      rest = lines.pop()!;
      if (lines.length > 0) last = JSON.parse(lines.at(-1)!);
    }
  })();
  return { last: () => last };
}

const isGreen = (look: Look | undefined) => look?.exit === 0 && look.healthz === 200;

/** A view of a Sluice, or a part of one. */
type View = "status" | "fix" | "healthz" | "page" | "metrics" | "log";
/** The seconds after which the truth was first seen in each view. */
type Seen = ReadonlyMap<View, number>;

/** The views that must show a fault. */
function viewsOf({ fix, code, unhealthy, exit }: Fault): readonly View[] {
  return [
    "status",
    ...(fix ? ["fix"] as const : []),
    ...(unhealthy ? ["healthz"] as const : []),
    ...(exit === STOPPED ? [] : ["page", "log"] as const),
    ...(code ? ["metrics"] as const : []),
  ];
}

/** Watches until the truth is everywhere where it belongs, or the time is over. */
async function watch(fault: Fault, cause: RegExp, eyes: Eyes, logged: () => string): Promise<Seen> {
  const startedMs = systemClock.monotonic();
  const seen = new Map<View, number>();
  const wanted = viewsOf(fault);
  const check = () => {
    const look = eyes.last();
    if (look === undefined) return false;
    const found: Record<View, boolean> = {
      status: look.exit === (fault.exit ?? 1) && cause.test(look.status),
      fix: fault.fix?.test(look.status) ?? false,
      healthz: look.healthz !== 200,
      page: cause.test(look.page),
      metrics: fault.code?.test(look.metrics) ?? false,
      log: cause.test(logged()),
    };
    for (const view of wanted) {
      if (found[view] && !seen.has(view)) seen.set(view, (systemClock.monotonic() - startedMs) / 1000);
    }
    return wanted.every((view) => seen.has(view));
  };
  await waitFor("the truth", limitMs(fault) + 5_000, check, 50).catch(() => {});
  return seen;
}

const limitMs = ({ withinS = SHOWN_WITHIN_S }: Fault) => withinS * 1000;

/** Waits until Sluice has repaired what a fault has broken, and says so. */
async function repaired(fault: Fault, before: KernelSnapshot, countedBefore: number, eyes: Eyes): Promise<string> {
  const startedMs = systemClock.monotonic();
  const restoredMs = await before.waitUntilRestored(limitMs(fault));
  await waitFor("the repair in the metrics", limitMs(fault), () => (eyes.last()?.repaired ?? 0) > countedBefore, 20);
  const countedMs = systemClock.monotonic() - startedMs;
  return `repaired after ${(restoredMs / 1000).toFixed(1)} s, in the metrics ${(countedMs / 1000).toFixed(1)}`;
}

/** Watches that nothing is red while a fault does no harm. */
async function staysGreen(eyes: Eyes): Promise<string> {
  const deadlineMs = systemClock.monotonic() + HARMLESS_FOR_MS;
  let looks = 0;
  for (let last = eyes.last(); systemClock.monotonic() < deadlineMs; await sleep(systemClock, 50)) {
    const look = eyes.last()!;
    if (look === last) continue;
    last = look;
    looks++;
    if (isGreen(look) && look.metrics === "") continue;
    throw new Error(`not green:\n${look.status}\nhealthz ${look.healthz}\n${look.metrics}`);
  }
  return `green in ${looks} looks`;
}

async function tryFault(fault: Fault, patient: Patient, eyes: Eyes): Promise<string> {
  await waitFor("green before the fault", GREEN_WITHIN_S * 1000, () => isGreen(eyes.last()), 50)
    .catch((error) =>
      Promise.reject(new Error(`${errorText(error)}\n${eyes.last()?.status}\n${patient.sluice.log()}`))
    );
  const before = patient.sluice.log().length;
  const logged = () => patient.sluice.log().slice(before);
  const countedBefore = eyes.last()!.repaired;
  const snapshot = fault.repairsItself ? await takeSnapshot(patient.lab, patient.mode) : undefined;
  const repair = await fault.break(patient);
  if (snapshot) return await repaired(fault, snapshot, countedBefore, eyes);
  if (fault.cause === undefined) return await staysGreen(eyes).finally(repair);
  const seen = await watch(fault, fault.cause, eyes, logged).finally(repair);
  const last = eyes.last();
  const text = VIEWS.map((view) => `${view} ${seen.get(view)?.toFixed(1) ?? "-"}`).join("  ");
  const isSolved = () => isGreen(eyes.last()) && fault.code?.test(eyes.last()!.metrics) !== true;
  const greenMs = await waitFor("green after the repair", GREEN_WITHIN_S * 1000, isSolved, 50)
    .catch((error) => Promise.reject(new Error(`${text}\n${errorText(error)}\n${eyes.last()?.status}`)));
  const summary = `${text}  green ${(greenMs / 1000).toFixed(1)}`;
  if (viewsOf(fault).every((view) => (seen.get(view) ?? Infinity) * 1000 <= limitMs(fault) * TIMEOUT_FACTOR)) {
    return summary;
  }
  const views = [last?.status, `exit ${last?.exit}, healthz ${last?.healthz}`, last?.metrics, last?.page, logged()];
  throw new Error([summary, ...views].join("\n"));
}

/** Tries the faults of a part with one Sluice. Writes the results so far into a file after each. */
async function tryPart({ mode, movesClock, faults }: Part, seed: number, file: string): Promise<void> {
  const results: Result[] = [];
  await withLab(async (lab) => {
    const tools = await createToolFolder(`${lab.folder}/tools`);
    lab.api.apply(...cluster(SERVICES));
    const authority = await createCertificateAuthority("lab");
    const server = await authority.issue("server", 3, API_LINK.server);
    const front = await startTlsProxy(API_LINK.server, lab.api.url, { server, clientAuthority: authority.cert });
    const client = await authority.issue("system:kube-proxy");
    const files = { "ca.pem": authority.cert, "client.pem": client.cert, "client-key.pem": client.key };
    for (const [name, text] of Object.entries(files)) await Deno.writeTextFile(`${lab.folder}/${name}`, text);
    await Deno.mkdir(`${lab.folder}/state`, { mode: 0o700 });
    await lab.run("node", ["true"]);
    await mount(`${lab.folder}/state`);
    const timePath = `${lab.folder}/time`;
    const moveClock = (seconds: number) => Deno.writeTextFile(timePath, `${seconds < 0 ? "" : "+"}${seconds}`);
    await moveClock(0);
    let sluice: ChaosSluice | undefined;
    try {
      sluice = await startSluice(lab, {
        mode,
        env: { ...tools.env, ...(movesClock ? clockOf(timePath) : {}) },
        stateDirectory: `${lab.folder}/state`,
        cluster: { server: front.url, "certificate-authority": "ca.pem" },
        user: { "client-certificate": "client.pem", "client-key": "client-key.pem" },
        fields: {
          canary: { enabled: true },
          ...(mode === "nftables" ? { failover: { endpointFailureDetection: true } } : {}),
          healthzBindAddress: "0.0.0.0:10256",
          metricsBindAddress: "127.0.0.1:10249",
        },
      });
      const eyes = open(lab);
      let round = 0;
      const patient: Omit<Patient, "random"> = {
        lab,
        mode,
        sluice,
        tools,
        front,
        authority,
        moveClock,
        change: () => change(lab, SERVICES, round++),
      };
      for (const fault of faults) {
        const name = nameOf(fault, mode), random = randomOf(seed, name);
        results.push(
          await attempt(name, async () => {
            console.log(`${name.padEnd(60)} ${await tryFault(fault, { ...patient, random }, eyes)}`);
          }),
        );
        await Deno.writeTextFile(file, JSON.stringify(results));
        await settle();
      }
    } finally {
      await sluice?.end("SIGTERM");
      await front.close();
      await unmount(`${lab.folder}/state`);
    }
  });
}

async function mount(folder: string): Promise<void> {
  await new Deno.Command("mount", { args: ["-t", "tmpfs", "-o", "size=512k,mode=700", "tmpfs", folder] }).output();
}

async function unmount(folder: string): Promise<void> {
  await new Deno.Command("umount", { args: ["-l", folder] }).output();
}

/** Faults that are tried one after another with one Sluice. */
interface Part {
  readonly mode: Mode;
  readonly movesClock: boolean;
  readonly faults: readonly Fault[];
}

/** The parts that run one after another, beside the other lane. */
const LANES: readonly (readonly Omit<Part, "faults">[])[] = [
  [{ mode: "nftables", movesClock: false }],
  [{ mode: "iptables", movesClock: false }, { mode: "nftables", movesClock: true }],
];
/** The first argument of the program if it tries one part, before the mode, the seed, the file of the results, and the names. */
const PART = "part";

/** The library that moves the clock of a single process. */
const CLOCK_LIBRARY = [Deno.env.get("LIBFAKETIME"), `/usr/lib/${Deno.build.arch}-linux-gnu/faketime/libfaketime.so.1`]
  .find((path) => path !== undefined && existsSync(path));

/** The environment of a process whose clock is where the file says. */
const clockOf = (file: string): Readonly<Record<string, string>> => ({
  LD_PRELOAD: CLOCK_LIBRARY!,
  FAKETIME_TIMESTAMP_FILE: file,
  FAKETIME_NO_CACHE: "1",
  FAKETIME_DONT_FAKE_MONOTONIC: "1",
});

/** A fault in a mode. */
interface Scenario {
  readonly name: string;
  readonly mode: Mode;
  readonly fault: Fault;
  readonly inGate?: boolean;
}

const nameOf = ({ name }: Fault, mode: Mode) => `${name}, ${mode}`;

const SCENARIOS: readonly Scenario[] = MODES.flatMap((mode) =>
  FAULTS.filter(({ modes }) => modes.includes(mode)).map((fault) => ({
    ...{ name: nameOf(fault, mode), mode, fault },
    inGate: fault.inGate?.includes(mode),
  }))
);

/** Tries the parts of a lane, each isolated, so that another can run at the same time. */
async function tryLane(
  parts: readonly Omit<Part, "faults">[],
  scenarios: readonly Scenario[],
  seed: number,
): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const { mode, movesClock } of parts) {
    const names = scenarios.filter(({ fault, mode: own }) => own === mode && (fault.movesClock ?? false) === movesClock)
      .map(({ name }) => name);
    if (names.length > 0) results.push(...await tryIsolated([mode, `${seed}`], names));
  }
  return results;
}

/** Tries scenarios of a part in a process of its own; those without a result have failed. */
async function tryIsolated(args: readonly string[], names: readonly string[]): Promise<readonly Result[]> {
  const file = await Deno.makeTempFile();
  try {
    await isolate([
      ...[Deno.execPath(), "run", "--quiet", "--cached-only", "--no-check", "--allow-all"],
      ...[new URL(import.meta.url).pathname, PART, ...args, file, ...names],
    ]);
    const results: readonly Result[] = JSON.parse(await Deno.readTextFile(file) || "[]");
    const missing = names.filter((name) => !results.some((result) => result.name === name));
    return [...results, ...missing.map((name) => ({ name, unit: name, passed: false, tookMs: 0 }))];
  } finally {
    await Deno.remove(file);
  }
}

if (isIsolated() && Deno.args[0] === PART) {
  const [, mode, seed, file, ...names] = Deno.args as [string, Mode, string, string, ...string[]];
  const faults = FAULTS.filter((fault) => names.includes(nameOf(fault, mode)));
  await tryPart({ mode, movesClock: faults[0]!.movesClock ?? false, faults }, Number(seed), file);
  Deno.exit(0);
}

Deno.exit(
  await runScenarios({
    name: "truth",
    self: import.meta.url,
    programs: PROGRAMS,
    scenarios: SCENARIOS,
    leftOut: ({ fault }) =>
      fault.movesClock && CLOCK_LIBRARY === undefined ? "libfaketime is not installed" : undefined,
    async run(scenarios, { seed, alone }) {
      if (alone) return await tryLane(LANES.flat(), scenarios, seed);
      return (await Promise.all(LANES.map((parts) => tryLane(parts, scenarios, seed)))).flat();
    },
  }),
);
