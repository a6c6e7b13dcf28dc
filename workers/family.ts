/** The entry of a family's worker: connects the backend and the sync loop to the messages of the main isolate. */
import type { BackendOptions } from "../backends/contract/mod.ts";
import { loadBackend } from "../backends/mod.ts";
import { createProcessRunner, openRulesetGeneration } from "../backends/tools/mod.ts";
import type { ReportProblems } from "../core/problems/mod.ts";
import {
  createBackoff,
  createLogger,
  errorText,
  type Family,
  type LimitedLogger,
  limitRepeats,
  otherFamily,
  systemClock,
  writeToStderr,
} from "../platform/mod.ts";
import type { FamilyWorker } from "../features/mod.ts";
import { CALLS, familyCode } from "./calls.ts";
import { checkedMessage } from "./checked_message.ts";
import { createUnpacking } from "./packed_delta.ts";
import type { CallMessage, FromWorker, RoleMessage, StartMessage, ToWorker, WorkerCode } from "./protocol.ts";
import { startSyncLoop, type SyncLoop } from "./sync_loop.ts";
import { createWebWorker, ownScope } from "./web_worker.ts";

/** The grace period for running tools when the worker stops, in milliseconds; then they are killed. */
const TOOL_GRACE_MS = 400;

/** The state between `start` and `stop`. */
interface Running extends FamilyWorker {
  readonly log: LimitedLogger;
  readonly loop: SyncLoop;
}

/** Aborted to kill the running tools. */
let tools = new AbortController();
/** The backend's code is loaded late; messages that arrive before that wait, in order. */
let running: Promise<Running> | undefined;
const unpack = createUnpacking();
const generation = openRulesetGeneration();

const { post, close } = connectToMain(familyCode, (message, role) => {
  switch (message.type) {
    case "start":
      if (running) throw new Error("message refused: this worker is already started");
      running = start(message, role);
      return;
    case "sync": {
      const delta = unpack(message.delta);
      return void running?.then(({ loop }) => loop.sync(delta));
    }
    case "call":
      return void answer(message);
    case "compare":
      return void running?.then(({ loop }) => loop.compare());
    case "cleanup":
      return void running?.then(({ loop }) => loop.cleanup());
    case "stop":
      return void stop(message);
    case "ping":
      return post({ type: "pong" });
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
  const options: BackendOptions = { family, runner, generation, clock, logger, onProblems, ipvs };
  const backend = await loadBackend(mode, options);
  const loop = startSyncLoop({
    family,
    backend,
    writeHostSettings: () => writeHostSettings(options, kernel),
    kernelFirst,
    backoff: createBackoff({ firstMs: 250, longestMs: 30_000 }),
    clock,
    logger,
    emit: post,
  });
  return { path, options, log, backend, loop };
}

async function writeHostSettings(options: BackendOptions, kernel: StartMessage["kernel"]): Promise<void> {
  if (kernel.length === 0) return;
  const { writeHostSettings } = await import("../backends/xtables/mod.ts");
  await writeHostSettings(options, kernel);
}

async function answer({ number, name, request }: CallMessage): Promise<void> {
  const current = await running;
  let answer: unknown;
  try {
    answer = current && await CALLS.get(name)?.handle(current, request);
  } catch (error) {
    current?.log.warn("call not answered", { call: name, error: errorText(error) });
  }
  post({ type: "answered", number, answer });
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

interface MainConnection {
  post(message: FromWorker): void;
  /** Ends this worker, unless it has a sibling that would end with it. */
  close(): void;
}

/**
 * Calls `onMessage` with each message of the main isolate. Messages arrive over the worker's own scope or, if a sibling has
 * started this worker, over the port that the sibling passed on. Starts and ends the sibling itself, always with the code
 * that `codeOf` names.
 *
 * The main isolate reads data that others write to the API, so that an attacker who controls it may send messages. A
 * message that is invalid in any field ends this worker (see `checkedMessage`).
 */
export function connectToMain(
  codeOf: (family: Family) => WorkerCode,
  onMessage: (message: ToWorker, role: RoleMessage) => void,
): MainConnection {
  const scope = ownScope<unknown, FromWorker>();
  let post = (message: FromWorker) => scope.postMessage(message);
  let role: RoleMessage | undefined;
  let sibling: Worker | undefined;

  const startSibling = (own: RoleMessage, number: number, port: MessagePort) => {
    const fail = (reason: string) => post({ type: "sibling-failed", number, reason });
    try {
      const family = otherFamily(own.family);
      sibling = createWebWorker(codeOf(family), fail);
      sibling.postMessage({ ...own, family } satisfies ToWorker);
      sibling.postMessage({ type: "use-port", port } satisfies ToWorker, [port]);
    } catch (error) {
      fail(`cannot start: ${errorText(error)}`);
    }
  };

  const take = ({ data }: MessageEvent<unknown>) => {
    const message = checkedMessage(data);
    if (message.type === "role") {
      if (role) throw new Error("message refused: a worker keeps its first role");
      role = message;
      return;
    }
    if (!role) throw new Error("message refused: it came before the worker's role");
    if (message.type === "use-port") {
      const { port } = message;
      post = (answer) => port.postMessage(answer);
      port.onmessage = take;
    } else if (message.type === "start-sibling") {
      startSibling(role, message.number, message.port);
    } else if (message.type === "end-sibling") {
      sibling?.terminate();
      sibling = undefined;
    } else onMessage(message, role);
  };
  scope.onmessage = take;

  return {
    post: (message) => post(message),
    close() {
      if (sibling === undefined) scope.close();
    },
  };
}
