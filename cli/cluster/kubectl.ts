import {
  type Runner,
  ToolMissingError,
  ToolMovedError,
  type ToolResult,
  ToolTimeoutError,
} from "../../backends/tools/mod.ts";
import { errorText } from "../../platform/mod.ts";

/** One run of kubectl. */
export interface KubectlCall {
  /** Its arguments, without the flags that select the cluster and the user. */
  readonly args: readonly string[];
  /** The time after which it is killed, in milliseconds. */
  readonly timeoutMs: number;
  /** Called for each line of standard output; `stdout` of the result is then empty. */
  readonly onLine?: (line: string) => void;
}

/** Runs kubectl with the user's rights; rejects with KubectlError if it cannot be started or does not end in time. */
export type Kubectl = (call: KubectlCall) => Promise<ToolResult>;

/** Options of `createKubectl`. */
export interface KubectlOptions {
  readonly runner: Runner;
  /** Its whole environment: KUBECONFIG, HOME, and what its credential plugins need. */
  readonly env: Readonly<Record<string, string>>;
  /** The flags that select the cluster and the user: `--context=test`. */
  readonly flags: readonly string[];
  /** Aborted when the user interrupts the command. */
  readonly signal: AbortSignal;
}

/** Something could not be read from the cluster, or asked on a node. */
export class KubectlError extends Error {
  override readonly name = "KubectlError";
  /** `words` is the cause in a few words, `reason` the whole message if that says more. */
  constructor(readonly words: string, readonly reason?: string) {
    super(reason === undefined ? words : `${words}: ${reason}`);
  }
}

/** Creates a function that runs kubectl. */
export function createKubectl({ runner, env, flags, signal }: KubectlOptions): Kubectl {
  return async ({ args, timeoutMs, onLine }) => {
    try {
      return await runner.run({ tool: "kubectl", args: [...flags, ...args], env, timeoutMs, onLine });
    } catch (error) {
      if (signal.aborted) throw error;
      if (error instanceof ToolTimeoutError) throw new KubectlError(`timeout after ${timeoutMs / 1000} s`);
      // A program that was missing at the start is not permitted later.
      if (error instanceof ToolMissingError || error instanceof ToolMovedError) {
        throw new KubectlError("kubectl is not on the PATH", "install it, or add its folder to PATH");
      }
      throw new KubectlError("cannot run kubectl", errorText(error));
    }
  };
}

/** The exit status of the program that `kubectl exec` ran; undefined if kubectl itself failed. */
export function exitStatusOfExec({ exitCode, stderr }: Pick<ToolResult, "exitCode" | "stderr">): number | undefined {
  return exitCode === 0 || ENDED.test(stderr) ? exitCode : undefined;
}

/** The lines of standard error that are the program's own, not those of `kubectl exec`. */
export function ownErrors(stderr: string): string {
  return stderr.split("\n").filter((line) => !ENDED.test(line) && !DEFAULTED.test(line)).join("\n").trim();
}

/** k8s.io/kubectl: the exit status of the program in the container. */
const ENDED = /^command terminated with exit code \d+$/m;
/** k8s.io/kubectl: which container of a pod was chosen. */
const DEFAULTED = /^Defaulted container /;

/** The causes of failures by kubectl's message. */
const CAUSES: readonly (readonly [pattern: RegExp, words: string])[] = [
  [/[Ff]orbidden/, "forbidden"],
  [/\(Unauthorized\)|must be logged in/, "not logged in"],
  [/\(NotFound\)|container not found/, "the pod is gone"],
  [/executable file not found|no such file or directory/, "its container has no program sluice"],
  [/Unable to connect to the server|The connection to the server \S+ was refused/, "the API server does not answer"],
  // Kubernetes 1.36 names the request to the kubelet, older versions the backend.
  [/error dialing backend|\/exec\/|i\/o timeout|no route to host|connection refused/, "its kubelet does not answer"],
];

/** The failure of kubectl itself. */
export function failureOfKubectl({ exitCode, stderr }: Pick<ToolResult, "exitCode" | "stderr">): KubectlError {
  const message = ownErrors(stderr).replaceAll("\n", " ");
  const words = CAUSES.find(([pattern]) => pattern.test(stderr))?.[1] ?? `kubectl failed with exit status ${exitCode}`;
  return new KubectlError(words, message === "" ? undefined : message);
}
