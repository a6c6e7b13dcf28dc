/** The worker's end of what it and the main isolate say to each other. */
import { errorText, type Family, otherFamily } from "../platform/mod.ts";
import { checkedMessage } from "./checked_message.ts";
import type { FromWorker, RoleMessage, ToWorker, WorkerCode } from "./protocol.ts";
import { createWebWorker } from "./web_worker.ts";

/** The global scope of a worker; the compiler sees that of the main isolate. */
interface WorkerScope {
  onmessage: ((event: MessageEvent<unknown>) => void) | null;
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
 * over the port that it was handed. Starts and ends the sibling, which `hear` does not have to know of: of the code that
 * `codeOf` names, whatever main says.
 *
 * Main reads what others write into the API, so that a message may come from an attacker there. One that is none of ours
 * in every field ends this worker (see `checkedMessage`).
 */
export function converse(
  codeOf: (family: Family) => WorkerCode,
  hear: (message: ToWorker, role: RoleMessage) => void,
): Conversation {
  const scope = globalThis as unknown as WorkerScope;
  let say = (message: FromWorker) => scope.postMessage(message);
  let role: RoleMessage | undefined;
  let sibling: Worker | undefined;

  const startSibling = (own: RoleMessage, number: number, port: MessagePort) => {
    const fail = (reason: string) => say({ type: "sibling-failed", number, reason });
    sibling?.terminate();
    try {
      const family = otherFamily(own.family);
      sibling = createWebWorker(codeOf(family), fail);
      sibling.postMessage({ ...own, family } satisfies ToWorker);
      sibling.postMessage({ type: "use-port", port } satisfies ToWorker, [port]);
    } catch (error) {
      fail(`it could not be started: ${errorText(error)}`);
    }
  };

  const take = ({ data }: MessageEvent<unknown>) => {
    const message = checkedMessage(data);
    if (message.type === "role") {
      if (role) throw new Error("a message was refused: a worker keeps the role that it was started with");
      role = message;
      return;
    }
    if (!role) throw new Error("a message was refused: it came before the worker's role");
    if (message.type === "use-port") {
      const { port } = message;
      say = (answer) => port.postMessage(answer);
      port.onmessage = take;
    } else if (message.type === "start-sibling") {
      startSibling(role, message.number, message.port);
    } else if (message.type === "end-sibling") {
      sibling?.terminate();
      sibling = undefined;
    } else hear(message, role);
  };
  scope.onmessage = take;

  return {
    say: (message) => say(message),
    close() {
      if (sibling === undefined) scope.close();
    },
  };
}
