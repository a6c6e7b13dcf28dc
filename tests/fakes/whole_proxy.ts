/** A whole proxy in this process, with fake workers that report syncs without a kernel. */
import { MODE_DESCRIPTIONS } from "../../backends/mod.ts";
import { COMMANDS } from "../../cli/commands/mod.ts";
import { type CommandLine, readCommandLine } from "../../config/mod.ts";
import { serveControlSocket } from "../../answers/control/mod.ts";
import type {
  FamilyHealth,
  FamilyLink,
  FamilyListener,
  StartFamily,
  StopOptions,
} from "../../core/channel/family_link.ts";
import type { ProcessProblems } from "../../core/problems/mod.ts";
import {
  type CallWorker,
  type Family,
  type FamilyDelta,
  readTraffic,
  type SyncReport,
  type TrafficReading,
} from "../../core/model/mod.ts";
import type { ProxyOptions } from "../../node/proxy_options.ts";
import { runProxy } from "../../node/run.ts";
import { createProcessRecord } from "../../observe/mod.ts";
import { reservePort } from "./sockets.ts";
import { systemClock } from "../../platform/clock.ts";
import { type Logger, silentLogger } from "../../platform/log.ts";
import { until } from "./wait.ts";

/** A running proxy and the messages of its workers. */
export interface WholeProxy {
  /** The URL of its status page. */
  readonly url: string;
  /** Makes a family's worker report its health. */
  health(family: Family, health: FamilyHealth): void;
  /** Makes a family's worker report a sync. */
  report(family: Family, report: Partial<SyncReport>): void;
  /** Keeps the reports of a family's syncs back until `release`. */
  hold(family: Family): void;
  release(family: Family): void;
  /** Makes a family's worker report the problems of a scope. */
  problems: (family: Family, ...problems: Parameters<FamilyListener["onProblems"]>) => void;
  /** Makes a family's worker answer the next reading of traffic; only with `--traffic-metrics`. */
  traffic: (family: Family, reading: TrafficReading) => void;
  /** Ends the run and starts another one, as a changed configuration file does. */
  replace(): Promise<void>;
  /** Ends the proxy at the same time as a changed configuration file ends its run. */
  endReplaced(): void;
  /** The stops of workers so far: whether each kept the worker for another run. */
  readonly stops: readonly boolean[];
}

/** Options of `withWholeProxy`. */
export interface WholeProxyOptions extends Partial<Pick<ProxyOptions, "clock" | "cpuMs" | "fileLimit" | "kept">> {
  /** Flags, including the source. */
  readonly args: readonly string[];
  readonly logger?: Logger;
  readonly controlSocket?: Deno.Listener;
  readonly processProblems?: ProcessProblems;
  readonly processFeatures?: ProxyOptions["processFeatures"];
  /** Calls a family's worker; by default, only readings of traffic are answered. */
  readonly call?: (family: Family) => CallWorker;
  /** The metrics of a family's relay; none by default. */
  readonly relayCounts?: FamilyLink["relayCounts"];
}

/** Runs `test` with a proxy and stops the proxy afterwards. */
export async function withWholeProxy(
  options: WholeProxyOptions,
  test: (proxy: WholeProxy) => Promise<void>,
): Promise<void> {
  const { args, logger = silentLogger, clock = systemClock, controlSocket: listener, call, relayCounts } = options;
  const port = reservePort();
  // An empty address would be the default one, which other tests and programs may have taken.
  const hasHealthz = args.some((arg) => arg.startsWith("--healthz-bind-address"));
  const { configuration, flags } = await configure([
    ...["--metrics-bind-address", `127.0.0.1:${port}`, "--proxy-mode", "nftables"],
    ...(hasHealthz ? [] : ["--healthz-port", "0"]),
    ...args,
  ]);
  const workers = new Map<Family, FakeWorker>(), stops: boolean[] = [];
  const startFamily: StartFamily = ({ family }, listener) => {
    const worker = createFakeWorker(family, listener);
    workers.set(family, worker);
    const stop = (options?: StopOptions) => {
      stops.push(options?.keepWorker === true);
      return worker.link.stop();
    };
    return { ...worker.link, relayCounts, stop, ...call && { call: call(family) } };
  };
  const end = new AbortController();
  const process = createProcessRecord(clock);
  const { processProblems, processFeatures, fileLimit, kept } = options;
  let current: Parameters<NonNullable<ProxyOptions["onAnswers"]>>[0] | undefined;
  const run = (replaced: AbortSignal) =>
    runProxy({
      replaced,
      process,
      configuration,
      flags,
      logger,
      logging: { level: "info", format: "text" },
      clock,
      // Other tests run in this process.
      cpuMs: options.cpuMs ?? (() => 0),
      fileLimit,
      kept,
      startFamily,
      cores: 4,
      processProblems,
      processFeatures,
      onAnswers(given) {
        const isFirst = current === undefined;
        current = given;
        const answers = async () => await current!();
        if (listener && isFirst) {
          serveControlSocket({ listener, answers, clock: systemClock, logger, signal: end.signal });
        }
      },
      signal: end.signal,
    });
  let replaced = new AbortController();
  let running = run(replaced.signal);
  const url = `http://127.0.0.1:${port}/`;
  try {
    const ended = running.then(() => Promise.reject(new Error("the proxy ended before it answered")));
    await Promise.race([ended, until(() => answers(url))]);
    await test({
      ...{ url, stops },
      health: (family, health) => workers.get(family)!.listener.onHealth(health),
      report: (family, report) => workers.get(family)!.report(report),
      hold: (family) => workers.get(family)!.hold(true),
      release: (family) => workers.get(family)!.hold(false),
      problems: (family, scope, problems) => workers.get(family)!.listener.onProblems(scope, problems),
      traffic: (family, reading) => workers.get(family)!.readings.push(reading),
      async replace() {
        replaced.abort();
        const status = await running;
        if (status !== 0) throw new Error(`the run that was replaced has ended with status ${status}`);
        replaced = new AbortController();
        running = run(replaced.signal);
        await until(() => answers(url));
      },
      endReplaced() {
        replaced.abort();
        end.abort();
      },
    });
    end.abort();
    const status = await running;
    if (status !== 0) throw new Error(`the proxy has ended with status ${status}`);
  } finally {
    end.abort();
    await running;
  }
}

/** A folder of manifests as a source. */
export interface ManifestFolder {
  /** The flags for this source. */
  readonly args: readonly string[];
  /** Replaces all manifests. */
  write(manifests: string): void;
}

/** Runs `test` with a folder of manifests and removes it afterwards. */
export async function withManifests(manifests: string, test: (folder: ManifestFolder) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  const write = (text: string) => {
    Deno.writeTextFileSync(`${folder}/.new`, text);
    Deno.renameSync(`${folder}/.new`, `${folder}/cluster.yaml`);
  };
  write(manifests);
  try {
    await test({ args: ["--source", `file:${folder}`], write });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

interface FakeWorker {
  readonly listener: FamilyListener;
  /** The answers to the next readings of traffic. */
  readonly readings: TrafficReading[];
  readonly link: ReturnType<StartFamily>;
  report(report: Partial<SyncReport>): void;
  /** Keeps the reports of syncs back, or sends those that were. */
  hold(isHeld: boolean): void;
}

/** A worker that reports every delta as synced, with a duration that depends on its size. */
function createFakeWorker(family: Family, listener: FamilyListener): FakeWorker {
  let revision = 0;
  const syncs: (() => void)[] = [];
  const readings: TrafficReading[] = [];
  let held: FamilyDelta[] | undefined;
  const report = (given: Partial<SyncReport>) =>
    listener.onReport({
      family,
      revision,
      ok: true,
      full: false,
      endedAtMs: systemClock.now(),
      durationMs: 6,
      problems: [],
      counts: {},
      ...given,
    });
  const sync = (delta: FamilyDelta) => {
    if (held !== undefined) return void held.push(delta);
    revision = delta.revision;
    const size = delta.set.length + delta.deleted.length;
    const elements = delta.set.reduce((sum, { clusterEndpoints }) => sum + 1 + clusterEndpoints.length, 0);
    report({
      full: delta.base === undefined,
      durationMs: 2.4 + (size ** 1.5 + revision % 5) / 2,
      counts: { elements_written: elements, elements_deleted: delta.deleted.length },
    });
  };
  systemClock.schedule(0, () => {
    listener.onHealth({ state: "ready" });
    listener.onReset();
  });
  return {
    listener,
    readings,
    report,
    hold(isHeld) {
      const waiting = held ?? [];
      held = isHeld ? waiting : undefined;
      if (!isHeld) waiting.forEach(sync);
    },
    link: {
      send(delta) {
        syncs.push(systemClock.schedule(2, () => sync(delta)));
      },
      call: ({ name, checked }) => Promise.resolve(name === readTraffic.name ? checked(readings.shift()) : undefined),
      compare() {},
      rest: () => false,
      wake() {},
      cleanup: () => Promise.resolve(),
      stop() {
        for (const cancel of syncs) cancel();
        return Promise.resolve();
      },
    },
  };
}

async function configure(args: readonly string[]): Promise<CommandLine & { readonly kind: "start" }> {
  const line = await readCommandLine(args, {
    readFile: (path) => Deno.readTextFileSync(path),
    hostname: () => "host",
    kernelRelease: () => "6.1.0",
    modes: MODE_DESCRIPTIONS,
    commands: COMMANDS,
  });
  if (line.kind !== "start") throw new Error(`invalid configuration: ${JSON.stringify(line)}`);
  return line;
}

async function answers(url: string): Promise<boolean> {
  try {
    await (await fetch(url)).body?.cancel();
    return true;
  } catch {
    return false;
  }
}
