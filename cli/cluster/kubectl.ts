/** The nodes of a cluster and their pods of Sluice, asked through kubectl. */
import {
  type Runner,
  ToolMissingError,
  ToolMovedError,
  type ToolResult,
  ToolTimeoutError,
} from "../../backends/tools/mod.ts";
import { errorText } from "../../platform/mod.ts";

/**
 * Runs kubectl with the user's rights; rejects with KubectlError if it cannot be started or does not end in time. `args` come
 * after the flags that select the cluster and the user. With `onLine`, `stdout` of the result is empty.
 */
export type Kubectl = (
  args: readonly string[],
  timeoutMs: number,
  onLine?: (line: string) => void,
) => Promise<ToolResult>;

/** A failure to read from the cluster, or to ask a node. */
export class KubectlError extends Error {
  override readonly name = "KubectlError";
  /** `words` is the cause in a few words, `reason` the whole message if that says more. */
  constructor(readonly words: string, readonly reason?: string) {
    super(reason === undefined ? words : `${words}: ${reason}`);
  }
}

/**
 * Creates a function that runs kubectl.
 * @param env its whole environment: KUBECONFIG, HOME, and what its credential plugins need
 * @param flags the flags that select the cluster and the user: `--context=test`
 * @param signal aborted when the user interrupts the command
 */
export function createKubectl(
  runner: Runner,
  env: Readonly<Record<string, string>>,
  flags: readonly string[],
  signal: AbortSignal,
): Kubectl {
  return async (args, timeoutMs, onLine) => {
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

/** The program's own lines on standard error, without the lines of `kubectl exec`. */
function ownErrors(stderr: string): string {
  return stderr.split("\n").filter((line) => !OF_KUBECTL.some((words) => words.test(line))).join("\n").trim();
}

/** k8s.io/kubectl: the exit status of the program in the container, without which kubectl itself has failed. */
const ENDED = /^command terminated with exit code \d+$/m;
/** k8s.io/kubectl: which container of a pod was chosen. */
const DEFAULTED = /^Defaulted container /;
/** k8s.io/client-go: each failed attempt to read the list of APIs, before kubectl's own error. */
const DISCOVERY_FAILED = /^E\d{4} [\d:.]+ +\d+ memcache\.go:/;
const OF_KUBECTL = [ENDED, DEFAULTED, DISCOVERY_FAILED];

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

/** The pods of Sluice, and how long kubectl may take. */
export interface PodSelection {
  readonly namespace: string;
  /** A label selector: `app.kubernetes.io/name=sluice`. */
  readonly selector: string;
  /** The maximum time of each answer, in milliseconds. */
  readonly timeoutMs: number;
}

/**
 * Runs a command of Sluice in the pod of a node: `["get", "services"]`. The result is the command's.
 * @throws {KubectlError} if it could not be run there
 */
export async function askNode(
  kubectl: Kubectl,
  { ready, pod }: NodeEntry & { readonly pod: PodEntry },
  args: readonly string[],
  { namespace, timeoutMs }: PodSelection,
  onLine?: (line: string) => void,
): Promise<ToolResult> {
  if (pod.phase !== "Running") throw new KubectlError(notRunning(pod), `pod ${pod.name}`);
  try {
    const exec = ["exec", pod.name, "--namespace", namespace, "--", "sluice", ...args];
    const result = await kubectl(exec, timeoutMs, onLine);
    if (result.exitCode !== 0 && !ENDED.test(result.stderr)) throw failureOfKubectl(result);
    return { ...result, stderr: ownErrors(result.stderr) };
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

interface PodEntry {
  readonly name: string;
  /** `Running`, `Pending`, … (core/v1 PodPhase). */
  readonly phase: string;
  /** The reason why a container waits: `CrashLoopBackOff`; empty if none waits. */
  readonly waiting: string;
}

interface Inventory {
  readonly entries: readonly NodeEntry[];
  /** The reason why the nodes could not be listed; the entries are then the nodes with a pod. */
  readonly nodesUnknown: string | undefined;
}

/** The minimum time for the lists of nodes and pods, which are long in a large cluster. */
const LIST_TIMEOUT_MS = 30_000;

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
  const list = async (columns: readonly string[], ...what: readonly string[]) => {
    const template = `{range .items[*]}${columns.join('{"\\t"}')}{"\\n"}{end}`;
    const args = ["get", ...what, "--output", `jsonpath=${template}`];
    const result = await kubectl(args, Math.max(timeoutMs, LIST_TIMEOUT_MS));
    if (result.exitCode !== 0) throw failureOfKubectl(result);
    return result.stdout.split("\n").filter((line) => line !== "").map((line) => line.split("\t"));
  };
  const [nodes, pods] = await Promise.all([
    list(NODE_COLUMNS, "nodes").catch((error) => {
      if (error instanceof KubectlError) return error;
      throw error;
    }),
    list(POD_COLUMNS, "pods", "--namespace", namespace, "--selector", selector).catch((error) => {
      if (!(error instanceof KubectlError)) throw error;
      throw new KubectlError("cannot list Sluice's pods", error.message);
    }),
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
