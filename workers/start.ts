/** Starts a family's Web Worker with no more permissions than it needs. */
import { toolsOf } from "../backends/tools.ts";
import type { FamilyLink, FamilyListener, FamilyOptions } from "../core/family_link.ts";
import type { FromWorker } from "./protocol.ts";
import { superviseFamily, type WorkerHandle, type WorkerListener } from "./supervise.ts";

/** Starts a family's worker, and keeps it running until the link is stopped (a `StartFamily`). */
export function startFamilyWorker(options: FamilyOptions, listener: FamilyListener): FamilyLink {
  const { clock, logger, ...plain } = options;
  return superviseFamily({
    start: { type: "start", ...plain },
    spawn: (workerListener) =>
      spawnWorker(
        { entry: familyEntry(), name: `sluice-${plain.family}`, tools: toolsOf(plain.mode, plain.family) },
        workerListener,
      ),
    listener,
    clock,
    logger,
  });
}

/** Where a family worker's code is: beside this module, be it a source file or a bundle. */
function familyEntry(): URL {
  return new URL(import.meta.url.endsWith(".ts") ? "./family.ts" : "./family.js", import.meta.url);
}

/** What a Web Worker is made of. */
export interface WorkerCode {
  /** Where its code is. */
  readonly entry: URL;
  /** How it is called where the runtime speaks of it. */
  readonly name: string;
  /** The tools that it may run; one that is not installed is no error here. It may do nothing else. */
  readonly tools: readonly string[];
}

/** Starts a Web Worker. Throws where this program itself may not run all of the worker's tools. */
export function spawnWorker({ entry, name, tools }: WorkerCode, listener: WorkerListener): WorkerHandle {
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
        read: false,
        sys: false,
        write: false,
      },
    },
  });
  worker.onmessage = (event: MessageEvent<FromWorker>) => listener.onMessage(event.data);
  worker.onmessageerror = () => listener.onFailure("a message from it could not be read");
  worker.onerror = (event) => {
    // Unhandled, the error would end the whole program.
    event.preventDefault();
    listener.onFailure(event.message);
  };
  return {
    post: (message) => worker.postMessage(message),
    terminate: () => worker.terminate(),
  };
}
