import { failureOfKubectl, type Kubectl, KubectlError } from "./kubectl.ts";

/** A node and its pod of Sluice. */
export interface NodeEntry {
  readonly node: string;
  /** Whether the API server considers the node ready; undefined if the nodes could not be listed. */
  readonly ready: boolean | undefined;
  readonly pod: PodEntry | undefined;
}

/** A pod of Sluice. */
export interface PodEntry {
  readonly name: string;
  /** `Running`, `Pending`, … (core/v1 PodPhase). */
  readonly phase: string;
  /** Why a container waits: `CrashLoopBackOff`; empty if none waits. */
  readonly waiting: string;
}

/** All nodes, sorted by name. */
export interface Inventory {
  readonly entries: readonly NodeEntry[];
  /** Why the nodes could not be listed; the entries are then those with a pod. */
  readonly nodesUnknown: string | undefined;
}

/** The pods to look for. */
export interface PodSelection {
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
 * Lists the nodes and the pods of Sluice. Without the permission to list nodes, only those with a pod.
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
