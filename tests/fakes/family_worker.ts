/** A family's worker as its own isolate, and its messages. */
import type { FromWorker, ToWorker } from "../../workers/protocol.ts";
import { workerEntry } from "../../workers/web_worker.ts";
import { inTime } from "./wait.ts";

/** A real worker of a family. */
export interface FamilyWorker {
  readonly worker: Worker;
  readonly post: (message: ToWorker, port?: MessagePort) => void;
  /** The message of the error that ended it. */
  readonly failed: Promise<string>;
}

/** Starts a worker that may run these tools, or all; without any, each setup fails. */
export function startFamilyWorker(tools: readonly string[] | "all" = []): FamilyWorker {
  const worker = new Worker(workerEntry("family"), {
    type: "module",
    deno: {
      permissions: {
        ...{ env: false, ffi: false, import: false, net: false, sys: false, write: false },
        run: tools === "all" || tools.length > 0 && [...tools],
        read: [new URL("../..", import.meta.url)],
      },
    },
  });
  const failed = Promise.withResolvers<string>();
  worker.onerror = (event) => {
    event.preventDefault();
    failed.resolve(event.message);
  };
  const post = (message: ToWorker, port?: MessagePort) => worker.postMessage(message, port ? [port] : []);
  return { worker, post, failed: failed.promise };
}

/** Returns a function that resolves with the next message of a type. */
export function following(
  from: Pick<Worker, "onmessage"> | MessagePort,
): <T extends FromWorker["type"]>(type: T) => Promise<Extract<FromWorker, { type: T }>> {
  const seen: FromWorker[] = [];
  let check = () => {};
  from.onmessage = ({ data }: MessageEvent<FromWorker>) => {
    seen.push(data);
    check();
  };
  return <T extends FromWorker["type"]>(type: T) =>
    inTime(
      type,
      new Promise<Extract<FromWorker, { type: T }>>((resolve) => {
        check = () => {
          const at = seen.findIndex((message) => message.type === type);
          if (at >= 0) resolve(seen.splice(at, 1)[0] as Extract<FromWorker, { type: T }>);
        };
        check();
      }),
    );
}
