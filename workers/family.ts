/** The entry of a family's worker: connects the backend and the sync loop to the messages of the main isolate. */
import type { Backend, BackendOptions } from "../backends/contract/mod.ts";
import type { PathExamination } from "../core/model/mod.ts";
import type { ReportProblems } from "../core/problems/mod.ts";
import { createProcessRunner } from "../backends/tools/mod.ts";
import { loadBackend } from "../backends/mod.ts";
import {
  createBackoff,
  createLogger,
  errorText,
  type LimitedLogger,
  limitRepeats,
  systemClock,
  writeToStderr,
} from "../platform/mod.ts";
import { connectToMain } from "./main_connection.ts";
import { familyCode } from "./family_code.ts";
import type { RoleMessage, StartMessage } from "./protocol.ts";
import { startSyncLoop, type SyncLoop } from "./sync_loop.ts";

/** The grace period for running tools when the worker stops, in milliseconds; then they are killed. */
const TOOL_GRACE_MS = 400;

/** The state between `start` and `stop`. */
interface Running {
  readonly options: BackendOptions;
  readonly log: LimitedLogger;
  readonly backend: Backend;
  readonly loop: SyncLoop;
}

/** Aborted to kill the running tools. */
let tools = new AbortController();
/** The backend's code is loaded late; messages that arrive meanwhile wait for it in their order. */
let running: Promise<Running> | undefined;

const { post, close } = connectToMain(familyCode, (message, role) => {
  switch (message.type) {
    case "start":
      if (running) throw new Error("message refused: this worker is already started");
      running = start(message, role);
      break;
    case "sync":
      running?.then(({ loop }) => loop.sync(message.delta));
      break;
    case "describe":
      describe(message);
      break;
    case "count":
      count(message);
      break;
    case "read-traffic":
      readTraffic();
      break;
    case "attempts":
      countAttempts(message);
      break;
    case "compare":
      running?.then(({ loop }) => loop.compare());
      break;
    case "examine":
      examine(message);
      break;
    case "cleanup":
      running?.then(({ loop }) => loop.cleanup());
      break;
    case "stop":
      stop(message);
      break;
    case "ping":
      post({ type: "pong" });
      break;
  }
});

async function start(
  { mode, ipvs, logLevel, logFormat, kernel, kernelFirst }: StartMessage,
  { family, path }: RoleMessage,
): Promise<Running> {
  const clock = systemClock;
  tools = new AbortController();
  const log = limitRepeats(createLogger({ level: logLevel, format: logFormat, clock, write: writeToStderr }), clock);
  const logger = log.with({ family });
  const onMoved = (error: Error) => post({ type: "restart-needed", reason: error.message });
  const runner = createProcessRunner({ clock, path, onMoved, signal: tools.signal });
  const onProblems: ReportProblems = (scope, problems) => post({ type: "problems", scope, problems });
  const options: BackendOptions = { family, runner, clock, logger, onProblems, ipvs };
  const backend = await loadBackend(mode, options);
  const loop = startSyncLoop({
    family,
    backend: {
      ...backend,
      async setup() {
        await backend.setup();
        // A sysctl that hangs must not delay the first sync.
        const written = Promise.all([writeHostSettings(options, kernel), backend.configure?.()]);
        if (kernelFirst) await written;
      },
    },
    backoff: createBackoff({ firstMs: 250, longestMs: 30_000 }),
    clock,
    logger,
    emit: post,
  });
  return { options, log, backend, loop };
}

async function writeHostSettings(options: BackendOptions, kernel: StartMessage["kernel"]): Promise<void> {
  if (kernel.length === 0) return;
  const { writeHostSettings } = await import("../backends/xtables/mod.ts");
  await writeHostSettings(options, kernel);
}

async function describe({ number, key }: { readonly number: number; readonly key: string }): Promise<void> {
  post({ type: "described", number, rules: (await running)?.backend.describe?.(key) });
}

async function count({ number }: { readonly number: number }): Promise<void> {
  const { backend, log } = await running ?? {};
  const counts = await backend?.packetCounts?.().catch((error: unknown) => {
    log?.debug("cannot read packet counters", { error: errorText(error) });
    return undefined;
  });
  post({ type: "counted", number, counts });
}

let isReadingTraffic = false;

async function readTraffic(): Promise<void> {
  if (isReadingTraffic) return;
  isReadingTraffic = true;
  const { backend, log } = await running ?? {};
  try {
    const reading = await backend?.readTraffic?.();
    if (reading) post({ type: "traffic", reading });
  } catch (error) {
    log?.warn("cannot read the counters of traffic", { error: errorText(error) });
  } finally {
    isReadingTraffic = false;
  }
}

async function countAttempts({ number }: { readonly number: number }): Promise<void> {
  const { backend, log } = await running ?? {};
  const counts = await backend?.attemptCounts?.().catch((error: unknown) => {
    log?.debug("cannot read connection attempts", { error: errorText(error) });
    return undefined;
  });
  post({ type: "attempted", number, counts });
}

async function examine(
  { number, what }: { readonly number: number; readonly what: PathExamination },
): Promise<void> {
  const { options } = await running ?? {};
  const { examinePath } = await import("../backends/diagnosis/mod.ts");
  const findings = await (options && examinePath(options, what))?.catch((error: unknown) => {
    options?.logger.debug("cannot examine the path of packets", { error: errorText(error) });
    return undefined;
  });
  post({ type: "examined", number, findings });
}

async function stop({ keepWorker }: { readonly keepWorker: boolean }): Promise<void> {
  const killTools = () => tools.abort(new Error("the worker is stopping"));
  const cancel = systemClock.schedule(TOOL_GRACE_MS, killTools);
  const { loop, log } = await running ?? {};
  await loop?.stop();
  cancel();
  // Also those that a backend keeps running between syncs.
  killTools();
  log?.flush();
  running = undefined;
  post({ type: "stopped" });
  if (!keepWorker) close();
}
