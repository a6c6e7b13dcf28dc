import type { PodReport, PodWatch } from "../cri/mod.ts";
import { createWebWorker, workerEntry } from "./web_worker.ts";

/**
 * Starts a worker that may connect to the container runtime's socket and do nothing else, and watches the pods with it until the watch is
 * ended. This isolate needs the permission to connect to the socket only during this call.
 */
export function startRuntimeWatch(path: string): PodWatch {
  const listeners = new Set<(report: PodReport) => void>();
  let last: PodReport | undefined;
  let isEnded = false;
  const publish = (report: PodReport) => {
    last = report;
    for (const listener of listeners) listener(report);
  };
  const code = { entry: workerEntry("runtime"), name: "sluice-runtime", tools: [], socket: path };
  const worker = createWebWorker(code, (reason) => {
    worker.terminate();
    publish({ problem: `the worker that asks it is gone: ${reason}` });
  });
  worker.onmessage = ({ data }: MessageEvent<PodReport>) => publish(data);
  worker.postMessage(path);
  return {
    endpoint: `unix://${path}`,
    follow(listener) {
      listeners.add(listener);
      if (last !== undefined) listener(last);
      return () => listeners.delete(listener);
    },
    end() {
      isEnded = true;
      listeners.clear();
      worker.terminate();
    },
    isEnded: () => isEnded,
  };
}
