import type { ProgramResult, RunProgram } from "../platform/mod.ts";
import type { PluginOutcome, PluginRequest, PluginRole } from "./plugin_protocol.ts";
import { createWebWorker, workerEntry } from "./web_worker.ts";

/**
 * Starts a worker that may run one program and nothing else, and returns a function that requests a run. The arguments
 * and the environment are those of the role, whatever a call passes, except for KUBERNETES_EXEC_INFO. `onLost` is
 * called when the worker has ended. If this executable may not start the program, there is no worker, and every run is
 * refused with an error that explains the fix.
 */
export function startPluginWorker(role: PluginRole, onLost: (reason: string) => void): RunProgram {
  const { program } = role;
  if (Deno.permissions.querySync({ name: "run", command: program }).state !== "granted") {
    return () => Promise.reject(new Error(whyNot(program)));
  }
  const awaited = new Map<number, PromiseWithResolvers<ProgramResult>>();
  let numbers = 0;
  let lost: Error | undefined;
  const worker = createWebWorker(
    { entry: workerEntry("plugin"), name: "sluice-plugin", tools: [program] },
    (reason) => {
      lost = new Error(`the worker for credential plugins is gone: ${reason}`);
      worker.terminate();
      for (const { reject } of awaited.values()) reject(lost);
      awaited.clear();
      onLost(lost.message);
    },
  );
  worker.postMessage(role);
  worker.onmessage = ({ data: outcome }: MessageEvent<PluginOutcome>) => {
    const waiter = awaited.get(outcome.number);
    awaited.delete(outcome.number);
    if ("result" in outcome) waiter?.resolve(outcome.result);
    else waiter?.reject(new Error(outcome.problem));
  };
  return (call) => {
    if (lost) return Promise.reject(lost);
    const waiter = Promise.withResolvers<ProgramResult>();
    const number = ++numbers;
    awaited.set(number, waiter);
    const execInfo = call.env.KUBERNETES_EXEC_INFO ?? "";
    worker.postMessage({ number, execInfo, timeoutMs: call.timeoutMs } satisfies PluginRequest);
    return waiter.promise;
  };
}

function whyNot(program: string): string {
  return `it is not installed, or this executable may not start it: name it when Sluice is built ` +
    `(EXEC_PLUGINS=${program} ./compile.sh), give it the name sluice-credentials (a link will do) in the kubeconfig ` +
    "and on the PATH, or use a kubeconfig with a token or a client certificate";
}
