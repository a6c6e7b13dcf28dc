import { errorText, type WorkerHandle, type WorkerListener } from "../platform/mod.ts";
import type { WorkerCode } from "./protocol.ts";

/** The failure of a worker whose message cannot be deserialized. */
export const UNREADABLE = "a message from it cannot be read";

/**
 * Starts a Web Worker that may run its tools, use the network, or connect to its socket, and do nothing else. Throws if this isolate itself may not run all of them.
 * When run from source, a worker may also read the source tree: a sibling's code is read with the permissions of the worker
 * that starts it. The files inside a compiled executable need no permission.
 */
export function createWebWorker(
  { entry, name, tools, libraries = [], network, socket }: WorkerCode,
  onFailure: (reason: string) => void,
): Worker {
  const ofSocket = socket === undefined ? [] : [socket];
  const readable = [...(entry.endsWith(".ts") ? [new URL("..", import.meta.url)] : []), ...ofSocket];
  const loadable = libraries.filter((path) => Deno.permissions.querySync({ name: "ffi", path }).state === "granted");
  const start = (net: boolean | string[]) =>
    new Worker(entry, {
      type: "module",
      name,
      deno: {
        permissions: {
          run: [...tools],
          env: false,
          ffi: loadable.length > 0 ? loadable : false,
          import: false,
          net,
          read: readable.length > 0 ? readable : false,
          sys: false,
          write: socket === undefined ? false : ofSocket,
        },
      },
    });
  const worker = socket === undefined ? start(network ?? false) : startWithSocket(socket, start);
  worker.onmessageerror = () => onFailure(UNREADABLE);
  worker.onerror = (event) => {
    // An unhandled error would end the whole program.
    event.preventDefault();
    onFailure(event.message || errorText(event.error));
  };
  return worker;
}

/** Starts such a worker as one that can be supervised. */
export function spawnWebWorker<To, From>(
  code: WorkerCode,
  { onMessage, onFailure }: WorkerListener<From>,
): WorkerHandle<To> {
  const worker = createWebWorker(code, onFailure);
  worker.onmessage = ({ data }: MessageEvent<From>) => onMessage(data);
  return { post: (message) => worker.postMessage(message), terminate: () => worker.terminate() };
}

/** Deno 2.9 requires network permission for a socket's path, which Deno 2.7 does not accept. */
function startWithSocket(socket: string, start: (net: false | string[]) => Worker): Worker {
  try {
    return start([`unix:${socket}`]);
  } catch (error) {
    if (!(error instanceof URIError)) throw error;
    return start(false);
  }
}

/** The URL of a worker's code: a source file or bundle beside this module. */
export function workerEntry(name: string): string {
  return new URL(`./${name}.${import.meta.url.endsWith(".ts") ? "ts" : "js"}`, import.meta.url).href;
}

/** The global scope of a worker, its connection to the isolate that has started it. */
interface WorkerScope<In, Out> {
  onmessage: ((event: MessageEvent<In>) => void) | null;
  postMessage(message: Out): void;
  close(): void;
}

/** The scope of this worker. The compiler's types describe the main isolate. */
export function ownScope<In, Out>(): WorkerScope<In, Out> {
  return globalThis as unknown as WorkerScope<In, Out>;
}
