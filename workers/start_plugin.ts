import {
  createQuestions,
  type ProgramCall,
  type ProgramResult,
  type RunProgram,
  systemClock,
} from "../platform/mod.ts";
import { createWebWorker, workerEntry } from "./web_worker.ts";

/**
 * The first message, before anything from the network is read: the program that this worker runs, and its whole environment except
 * for KUBERNETES_EXEC_INFO. It never changes.
 */
export interface PluginRole extends Pick<ProgramCall, "program" | "args" | "env"> {}

/** Requests a run of the program; answered with an outcome of the same number. */
export interface PluginRequest {
  readonly number: number;
  /** The value of the variable KUBERNETES_EXEC_INFO; undefined for a program that is no credential plugin. */
  readonly execInfo: string | undefined;
  /** The standard input; none if undefined. */
  readonly stdin: string | undefined;
  /** The time after which the program is killed, in milliseconds. */
  readonly timeoutMs: number;
}

/** The result of a run, or the reason why there is none. */
export type PluginOutcome =
  & { readonly number: number }
  & (
    | { readonly result: ProgramResult }
    | { readonly problem: string }
  );

/** The purpose of a program that is started, and how to permit it. */
const PURPOSES = {
  plugin: {
    name: "credential plugins",
    fix: (program: string) =>
      `name it when Sluice is built (EXEC_PLUGINS=${program} ./compile.sh), give it the name sluice-credentials (a link will ` +
      "do) in the kubeconfig and on the PATH, or use a kubeconfig with a token or a client certificate",
  },
  /** The program of `sluice watch local --exec`. */
  hook: {
    name: "the hook",
    fix: (program: string) =>
      "give it the name sluice-hook (a link will do) on the PATH, or name it when Sluice is built " +
      `(EXEC_HOOKS=${program} ./compile.sh)`,
  },
};

/**
 * Starts a worker that may run one program and nothing else, and returns a function that requests a run. The role fixes the
 * arguments and the environment; a call only passes KUBERNETES_EXEC_INFO and the standard input. `onLost` is called when the
 * worker has ended. If this executable may not start the program, there is no worker, and every run is refused with an error
 * that explains the fix.
 */
export function startPluginWorker(
  purpose: keyof typeof PURPOSES,
  role: PluginRole,
  onLost: (reason: string) => void,
): RunProgram {
  const { program } = role, { name, fix } = PURPOSES[purpose];
  if (Deno.permissions.querySync({ name: "run", command: program }).state !== "granted") {
    const text = `${program} is not installed, or this executable may not start it: ${fix(program)}`;
    return () => Promise.reject(new Error(text));
  }
  const runs = createQuestions<PluginOutcome>(systemClock), gone = Promise.withResolvers<never>();
  gone.promise.catch(() => {});
  const worker = createWebWorker(
    { entry: workerEntry("plugin"), name: "sluice-plugin", tools: [program] },
    (reason) => {
      const error = new Error(`the worker for ${name} is gone: ${reason}`);
      worker.terminate();
      gone.reject(error);
      onLost(error.message);
    },
  );
  worker.postMessage(role);
  worker.onmessage = ({ data }: MessageEvent<PluginOutcome>) => runs.answer(data.number, data);
  return async ({ env: { KUBERNETES_EXEC_INFO: execInfo }, stdin, timeoutMs }) => {
    const post = (number: number) => worker.postMessage({ number, execInfo, stdin, timeoutMs } satisfies PluginRequest);
    const outcome = (await Promise.race([gone.promise, runs.ask(post)]))!;
    if ("problem" in outcome) throw new Error(outcome.problem);
    return outcome.result;
  };
}
