/** The nodes of a cluster and their pods of Sluice, asked through kubectl. */
import {
  type Runner,
  ToolMissingError,
  ToolMovedError,
  type ToolResult,
  ToolTimeoutError,
} from "../../backends/tools/mod.ts";
import { errorText } from "../../platform/mod.ts";

/** One run of kubectl. */
interface KubectlCall {
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
interface KubectlOptions {
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
function exitStatusOfExec({ exitCode, stderr }: Pick<ToolResult, "exitCode" | "stderr">): number | undefined {
  return exitCode === 0 || ENDED.test(stderr) ? exitCode : undefined;
}

/** The program's own lines on standard error, without the lines of `kubectl exec`. */
function ownErrors(stderr: string): string {
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

/** A command for one node. */
interface NodeQuestion {
  readonly namespace: string;
  /** The arguments of `sluice`: `["get", "services"]`. */
  readonly args: readonly string[];
  readonly timeoutMs: number;
  /** Called for each line of the answer; `stdout` of the result is then empty. */
  readonly onLine?: (line: string) => void;
}

/** The answer of a node. */
interface NodeAnswer {
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

/** A node and its pod of Sluice. */
export interface NodeEntry {
  readonly node: string;
  /** Whether the API server considers the node ready; undefined if the nodes could not be listed. */
  readonly ready: boolean | undefined;
  readonly pod: PodEntry | undefined;
}

/** A pod of Sluice. */
interface PodEntry {
  readonly name: string;
  /** `Running`, `Pending`, … (core/v1 PodPhase). */
  readonly phase: string;
  /** The reason why a container waits: `CrashLoopBackOff`; empty if none waits. */
  readonly waiting: string;
}

/** All nodes, sorted by name. */
export interface Inventory {
  readonly entries: readonly NodeEntry[];
  /** The reason why the nodes could not be listed; the entries are then the nodes with a pod. */
  readonly nodesUnknown: string | undefined;
}

/** The pods to look for. */
interface PodSelection {
  readonly namespace: string;
  /** A label selector: `app.kubernetes.io/name=sluice`. */
  readonly selector: string;
  readonly timeoutMs: number;
}

const CONDITION = '{.status.conditions[?(@.type=="Ready")].status}';
const NODE_COLUMNS = ["{.metadata.name}", CONDITION];
const POD_COLUMNS = [
  "{.spec.nodeName}",
  "{.metadata.name}",
  "{.status.phase}",
  "{.status.initContainerStatuses[*].state.waiting.reason}",
  "{.status.containerStatuses[*].state.waiting.reason}",
  "{.metadata.deletionTimestamp}",
  "{.metadata.creationTimestamp}",
];

/**
 * Lists the nodes and the pods of Sluice. Without permission to list nodes, only nodes with a pod.
 * @throws {KubectlError} if the pods cannot be listed
 */
export async function readInventory(kubectl: Kubectl, selection: PodSelection): Promise<Inventory> {
  const { namespace, selector, timeoutMs } = selection;
  const list = async (what: readonly string[], columns: readonly string[]) => {
    const result = await kubectl({ args: ["get", ...what, "--output", `jsonpath=${template(columns)}`], timeoutMs });
    if (result.exitCode !== 0) throw failureOfKubectl(result);
    return rowsOf(result.stdout);
  };
  const [nodes, pods] = await Promise.all([
    list(["nodes"], NODE_COLUMNS).catch((error) => {
      if (error instanceof KubectlError) return error;
      throw error;
    }),
    list(["pods", "--namespace", namespace, "--selector", selector], POD_COLUMNS),
  ]);
  const podOf = podsByNode(pods);
  const isKnown = !(nodes instanceof Error);
  const ready = new Map(isKnown ? nodes.map(([name, condition]) => [name!, condition === "True"]) : []);
  const names = isKnown ? [...ready.keys()] : [...podOf.keys()];
  return {
    entries: names.sort(byName).map((node) => ({ node, ready: ready.get(node), pod: podOf.get(node) })),
    nodesUnknown: isKnown ? undefined : nodes.message,
  };
}

/** Compares names as people count: node-2 before node-10. */
export function byName(a: string, b: string): number {
  return a.localeCompare(b, "en", { numeric: true });
}

function template(columns: readonly string[]): string {
  return `{range .items[*]}${columns.join('{"\\t"}')}{"\\n"}{end}`;
}

function rowsOf(text: string): string[][] {
  return text.split("\n").filter((line) => line !== "").map((line) => line.split("\t"));
}

/** The pod of each node: one that stays before one being deleted, a running one before others, then the newest. */
function podsByNode(rows: readonly (readonly string[])[]): Map<string, PodEntry> {
  const preference = ([, , phase, , , deleted, created]: readonly string[]) =>
    `${deleted === "" ? 1 : 0}${phase === "Running" ? 1 : 0}${created}`;
  const sorted = rows.filter(([node]) => node !== "").toSorted((a, b) => preference(a) < preference(b) ? -1 : 1);
  return new Map(
    sorted.map(([node, name, phase, waitingBefore, waiting]) => [
      node!,
      { name: name!, phase: phase!, waiting: [waitingBefore, waiting].filter(Boolean).join(" ").split(" ")[0]! },
    ]),
  );
}
