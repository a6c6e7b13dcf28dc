/** The worker's end of what it and the main isolate say to each other. */
import { errorText } from "../platform/log.ts";
import type { FromWorker, ToWorker, WorkerCode } from "./protocol.ts";
import { createWebWorker } from "./web_worker.ts";

/** The global scope of a worker; the compiler sees that of the main isolate. */
interface WorkerScope {
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
  postMessage(message: FromWorker): void;
  close(): void;
}

/** What a worker says, and how it ends. */
export interface Conversation {
  say(message: FromWorker): void;
  /** Ends this worker; not while a sibling lives that would end with it. */
  close(): void;
}

/**
 * Has `hear` take what the main isolate says, over the worker's own scope or, where a sibling has started this worker,
 * over the port that it was handed. Starts and ends the sibling, which `hear` does not have to know of.
 */
export function converse(hear: (message: ToWorker) => void): Conversation {
  const scope = globalThis as unknown as WorkerScope;
  let say = (message: FromWorker) => scope.postMessage(message);
  let sibling: Worker | undefined;

  const startSibling = (number: number, code: WorkerCode, port: MessagePort) => {
    const fail = (reason: string) => say({ type: "sibling-failed", number, reason });
    sibling?.terminate();
    try {
      sibling = createWebWorker(code, fail);
      sibling.postMessage({ type: "use-port", port } satisfies ToWorker, [port]);
    } catch (error) {
      fail(`it could not be started: ${errorText(error)}`);
    }
  };

  const take = ({ data: message }: MessageEvent<ToWorker>) => {
    if (message.type === "use-port") {
      const { port } = message;
      say = (answer) => port.postMessage(answer);
      port.onmessage = take;
    } else if (message.type === "start-sibling") {
      startSibling(message.number, message.code, message.port);
    } else if (message.type === "end-sibling") {
      sibling?.terminate();
      sibling = undefined;
    } else hear(message);
  };
  scope.onmessage = take;

  return {
    say: (message) => say(message),
    close() {
      if (sibling === undefined) scope.close();
    },
  };
}
