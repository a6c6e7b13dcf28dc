/** The entry of a family's worker: builds what works together, and passes messages between it and the main isolate. */
import type { Backend, BackendOptions } from "../backends/contract/mod.ts";
import { writeHostSettings } from "../backends/xtables/mod.ts";
import { createProcessRunner } from "../backends/tools/mod.ts";
import { createBackend } from "../backends/mod.ts";
import {
  createBackoff,
  createLogger,
  errorText,
  type LimitedLogger,
  limitRepeats,
  systemClock,
  writeToStderr,
} from "../platform/mod.ts";
import { converse } from "./conversation.ts";
import { familyCode } from "./family_code.ts";
import type { RoleMessage, StartMessage } from "./protocol.ts";
import { startSyncLoop, type SyncLoop } from "./sync_loop.ts";

/** How long a tool that runs when the worker is to stop may go on before it is killed. */
const STOP_PATIENCE_MS = 400;

let stopping = new AbortController();
let backend: Backend | undefined;
let loop: SyncLoop | undefined;
let log: LimitedLogger | undefined;

const { say, close } = converse(familyCode, (message, role) => {
  switch (message.type) {
    case "start":
      if (loop) throw new Error("a message was refused: this worker has been started already");
      loop = start(message, role);
      break;
    case "sync":
      loop?.sync(message.delta);
      break;
    case "describe": {
      const rules = backend?.describe?.(message.key);
      say({ type: "described", number: message.number, rules });
      break;
    }
    case "count":
      count(message.number);
      break;
    case "cleanup":
      loop?.cleanup();
      break;
    case "stop":
      stop(message.keepWorker);
      break;
    case "ping":
      say({ type: "pong" });
      break;
  }
});

function start(
  { mode, ipvs, logLevel, logFormat, kernel, kernelFirst }: StartMessage,
  { family, path }: RoleMessage,
): SyncLoop {
  const clock = systemClock;
  stopping = new AbortController();
  log = limitRepeats(createLogger({ level: logLevel, format: logFormat, clock, write: writeToStderr }), clock);
  const logger = log.with({ family });
  const onMoved = (error: Error) => say({ type: "restart-needed", reason: error.message });
  const runner = createProcessRunner({ clock, path, onMoved, signal: stopping.signal });
  const options: BackendOptions = { family, runner, clock, logger, ipvs };
  const created = createBackend(mode, options);
  backend = created;
  return startSyncLoop({
    family,
    backend: {
      ...created,
      async setup() {
        await created.setup();
        // A sysctl that hangs must not hold up the first sync.
        const written = Promise.all([writeHostSettings(options, kernel), created.configure?.()]);
        if (kernelFirst) await written;
      },
    },
    backoff: createBackoff({ firstMs: 250, longestMs: 30_000 }),
    clock,
    logger,
    emit: say,
  });
}

async function count(number: number): Promise<void> {
  const counts = await backend?.packetCounts?.().catch((error: unknown) => {
    log?.debug("the counts of rules cannot be read", { error: errorText(error) });
    return undefined;
  });
  say({ type: "counted", number, counts });
}

async function stop(keepWorker: boolean): Promise<void> {
  const killTools = () => stopping.abort(new Error("the worker is stopping"));
  const cancel = systemClock.schedule(STOP_PATIENCE_MS, killTools);
  await loop?.stop();
  cancel();
  // Also the tool that a backend goes on talking with.
  killTools();
  log?.flush();
  loop = undefined;
  backend = undefined;
  say({ type: "stopped" });
  if (!keepWorker) close();
}
