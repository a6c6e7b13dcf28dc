import { errorText } from "../platform/mod.ts";
import type { WorkerCode } from "./protocol.ts";

/**
 * Starts a Web Worker that may run its tools and do nothing else. Throws where this isolate itself may not run all of
 * them. From source, where a sibling's code is read with the permissions of the one that starts it, a worker may read
 * the source tree as well; what a compiled executable carries is read without a permission.
 */
export function createWebWorker({ entry, name, tools }: WorkerCode, onFailure: (reason: string) => void): Worker {
  const worker = new Worker(entry, {
    type: "module",
    name,
    deno: {
      permissions: {
        run: [...tools],
        env: false,
        ffi: false,
        import: false,
        net: false,
        read: entry.endsWith(".ts") ? [new URL("..", import.meta.url)] : false,
        sys: false,
        write: false,
      },
    },
  });
  worker.onmessageerror = () => onFailure("a message from it could not be read");
  worker.onerror = (event) => {
    // Unhandled, the error would end the whole program.
    event.preventDefault();
    onFailure(event.message || errorText(event.error));
  };
  return worker;
}

/** The URL of a worker's code: a file beside this module, be it a source file or a bundle. */
export function workerEntry(name: string): string {
  return new URL(`./${name}.${import.meta.url.endsWith(".ts") ? "ts" : "js"}`, import.meta.url).href;
}
