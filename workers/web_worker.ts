import { errorText } from "../platform/mod.ts";
import type { WorkerCode } from "./protocol.ts";

/** The failure of a worker whose message cannot be deserialized. */
export const UNREADABLE = "a message from it cannot be read";

/**
 * Starts a Web Worker that may run its tools, use the network, or connect to its socket, and do nothing else. Throws if this isolate itself may not run all of them.
 * When run from source, a worker may also read the source tree: a sibling's code is read with the permissions of the worker
 * that starts it. The files inside a compiled executable need no permission.
 */
export function createWebWorker(
  { entry, name, tools, network, socket }: WorkerCode,
  onFailure: (reason: string) => void,
): Worker {
  // Deno requires net, read and write to connect to a socket.
  const ofSocket = socket === undefined ? [] : [socket];
  const readable = [...(entry.endsWith(".ts") ? [new URL("..", import.meta.url)] : []), ...ofSocket];
  const worker = new Worker(entry, {
    type: "module",
    name,
    deno: {
      permissions: {
        run: [...tools],
        env: false,
        ffi: false,
        import: false,
        net: network ?? (socket === undefined ? false : [`unix:${socket}`]),
        read: readable.length > 0 ? readable : false,
        sys: false,
        write: socket === undefined ? false : ofSocket,
      },
    },
  });
  worker.onmessageerror = () => onFailure(UNREADABLE);
  worker.onerror = (event) => {
    // An unhandled error would end the whole program.
    event.preventDefault();
    onFailure(event.message || errorText(event.error));
  };
  return worker;
}

/** The URL of a worker's code: a source file or bundle beside this module. */
export function workerEntry(name: string): string {
  return new URL(`./${name}.${import.meta.url.endsWith(".ts") ? "ts" : "js"}`, import.meta.url).href;
}
