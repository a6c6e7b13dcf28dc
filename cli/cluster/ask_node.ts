import type { NodeEntry, PodEntry } from "./inventory.ts";
import { exitStatusOfExec, failureOfKubectl, type Kubectl, KubectlError, ownErrors } from "./kubectl.ts";

/** A command for one node. */
export interface NodeQuestion {
  readonly namespace: string;
  /** The arguments of `sluice`: `["get", "services"]`. */
  readonly args: readonly string[];
  readonly timeoutMs: number;
  /** Called for each line of the answer; `stdout` of the result is then empty. */
  readonly onLine?: (line: string) => void;
}

/** The answer of a node. */
export interface NodeAnswer {
  /** The exit status of `sluice` there. */
  readonly exitStatus: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a command of Sluice in the pod of a node.
 * @throws {KubectlError} if it could not be run there
 */
export async function askNode(
  kubectl: Kubectl,
  { ready, pod }: NodeEntry & { readonly pod: PodEntry },
  { namespace, args, timeoutMs, onLine }: NodeQuestion,
): Promise<NodeAnswer> {
  if (pod.phase !== "Running") throw new KubectlError(notRunning(pod), `pod ${pod.name}`);
  try {
    const result = await kubectl({
      args: ["exec", pod.name, "--namespace", namespace, "--", "sluice", ...args],
      timeoutMs,
      onLine,
    });
    const exitStatus = exitStatusOfExec(result);
    if (exitStatus === undefined) throw failureOfKubectl(result);
    return { exitStatus, stdout: result.stdout, stderr: ownErrors(result.stderr) };
  } catch (error) {
    if (!(error instanceof KubectlError) || error.words === "forbidden") throw error;
    if (pod.waiting !== "") throw new KubectlError(notRunning(pod), `pod ${pod.name}`);
    if (ready === false) throw new KubectlError("the node is not ready", error.message);
    throw error;
  }
}

function notRunning({ phase, waiting }: PodEntry): string {
  return `its pod is ${waiting === "" ? phase : waiting}`;
}
