/** Starts a family's Web Worker with no more permissions than it needs. */
import { toolsOf } from "../backends/tools.ts";
import type { StartFamily } from "../core/family_link.ts";
import type { Family, ProxyMode } from "../core/model.ts";
import type { FromWorker } from "./protocol.ts";
import { superviseFamily, type WorkerHandle, type WorkerListener } from "./supervise.ts";

/** Starts a family's worker, and keeps it running until the link is stopped. */
export const startFamilyWorker: StartFamily = ({ clock, logger, ...plain }, listener) =>
  superviseFamily({
    start: { type: "start", ...plain },
    spawn: (workerListener) => spawnWorker(familyEntry(), plain.family, plain.mode, workerListener),
    listener,
    clock,
    logger,
  });

/** Where a family worker's code is: beside this module, be it a source file or a bundle. */
function familyEntry(): URL {
  return new URL(import.meta.url.endsWith(".ts") ? "./family.ts" : "./family.js", import.meta.url);
}

/**
 * Starts the Web Worker whose code is at `entry`. It may run the tools of its mode and nothing else; a tool that is not
 * installed is no error here. Throws where this program itself may not run all of these tools.
 */
export function spawnWorker(entry: URL, family: Family, mode: ProxyMode, listener: WorkerListener): WorkerHandle {
  const worker = new Worker(entry, {
    type: "module",
    name: `sluice-${family}`,
    deno: {
      permissions: {
        run: [...toolsOf(mode, family)],
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
