import { errorText, type Family, otherFamily } from "../platform/mod.ts";
import { checkedMessage } from "./checked_message.ts";
import type { FromWorker, RoleMessage, ToWorker, WorkerCode } from "./protocol.ts";
import { createWebWorker } from "./web_worker.ts";

/** The global scope of a worker; the compiler's types are those of the main isolate. */
interface WorkerScope {
  onmessage: ((event: MessageEvent<unknown>) => void) | null;
  postMessage(message: FromWorker): void;
  close(): void;
}

/** A worker's connection to the main isolate. */
export interface MainConnection {
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
  const scope = globalThis as unknown as WorkerScope;
  let post = (message: FromWorker) => scope.postMessage(message);
  let role: RoleMessage | undefined;
  let sibling: Worker | undefined;

  const startSibling = (own: RoleMessage, number: number, port: MessagePort) => {
    const fail = (reason: string) => post({ type: "sibling-failed", number, reason });
    sibling?.terminate();
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
