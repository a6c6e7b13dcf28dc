import { duration, type Flag, flagValue, NO_ANSWER, option, text, wholeTexts } from "../../config/mod.ts";
import { errorText, printable, suggestion, writeToStderr } from "../../platform/mod.ts";
import type { Kubectl, NodeEntry, PodSelection } from "../cluster/mod.ts";
import { type Command, type Invocation, linesText, printAs, TEXT_OR_JSON, toolRunner, UsageError } from "./command.ts";
import { diffCommand } from "./rules.ts";
import { eventsCommand } from "./events.ts";
import { explainCommand } from "./explain.ts";
import { getCommand } from "./get.ts";
import { dropPermissions, inheritedEnvironment } from "./privileges.ts";

const ON_ONE_NODE = [explainCommand, getCommand, diffCommand, eventsCommand];
const STATUS = { name: "status", flags: TEXT_OR_JSON };

const NODE = option("node", text(), "The node to ask; needed for all but status.");
const NAMESPACE = option(
  "namespace",
  text("kube-system"),
  "The namespace of Sluice's pods; kube-system by default.",
  "n",
);
const SELECTOR = option(
  "selector",
  text("app.kubernetes.io/name=sluice"),
  "The labels of Sluice's pods; app.kubernetes.io/name=sluice by default.",
  "l",
);
const TIMEOUT = option("timeout", duration(), "The maximum time of each answer; 10s by default.");
const TIMEOUT_MS = 10_000;
const KUBECTL_FLAGS = [
  option("kubeconfig", text(), "kubectl's kubeconfig file."),
  option("context", text(), "The context of the kubeconfig."),
  option("cluster", text(), "The cluster of the kubeconfig."),
  option("user", text(), "The user of the kubeconfig."),
  option("as", text(), "The user to impersonate."),
  option("as-group", wholeTexts(), "A group to impersonate; repeat it for more."),
];
const OWN = [NODE, NAMESPACE, SELECTOR, TIMEOUT, ...KUBECTL_FLAGS];

/** `kubectl sluice`, or `sluice cluster`: the nodes of a cluster, asked through kubectl. */
export const clusterCommand: Command = {
  name: "cluster",
  summary: "Ask Sluice on the nodes of a cluster through kubectl; as a plugin: kubectl sluice.",
  arguments: [
    {
      name: [STATUS, ...ON_ONE_NODE].map(({ name }) => name).join("|"),
      description:
        "status: every node, one line each; the others as the commands of this name, on one node; events: those so far",
      required: true,
      values: [STATUS, ...ON_ONE_NODE].map(({ name }) => name),
    },
    { name: "ARGUMENT", description: "the arguments of explain and get", repeats: true },
  ],
  flags: [...OWN, ...flagsOfAll()],
  withoutSource: true,
  exitStatuses: {
    0: "every node with a pod has everything in effect",
    1: "something is broken or not in effect yet on a node; or the command failed",
    [NO_ANSWER]: "otherwise, a node with a pod or the API server does not answer, or there is no pod",
  },
  examples: {
    "kubectl sluice status": "one line per node",
    "kubectl sluice explain default/web --node node-7": "where node-7 sends connections to a service",
    "kubectl sluice diff --node node-7 --context test": "how the kernel of node-7 differs",
  },
  startsPrograms: true,
  async start(invocation) {
    const [action, ...words] = invocation.arguments;
    const command = [STATUS, ...ON_ONE_NODE].find(({ name }) => name === action)!;
    const given = flagsFor(command, invocation);
    const node = flagValue(invocation.flags, NODE);
    if (command === STATUS && words.length > 0) throw new UsageError("status takes no argument; use --node NAME");
    if (command !== STATUS && node === undefined) throw new UsageError(`${action} needs --node NAME, the node to ask`);
    dropPermissions("net", "write");
    const { createKubectl, KubectlError } = await import("../cluster/mod.ts");
    const { signal, flags } = invocation;
    const kubectlFlags = KUBECTL_FLAGS.flatMap(({ name }) =>
      flags.has(name) ? [flags.get(name)].flat().map((value) => `--${name}=${value}`) : []
    );
    const kubectl = createKubectl(await toolRunner(invocation), inheritedEnvironment(), kubectlFlags, signal);
    const selection: PodSelection = {
      namespace: flagValue(flags, NAMESPACE) ?? NAMESPACE.field.initial,
      selector: flagValue(flags, SELECTOR) ?? SELECTOR.field.initial,
      timeoutMs: flagValue(flags, TIMEOUT) ?? TIMEOUT_MS,
    };
    try {
      if (command === STATUS) return await status(kubectl, selection, node, invocation);
      // A container keeps running a live command after kubectl has ended.
      const once = command === eventsCommand ? ["--once=true"] : [];
      // After `--`, no argument is parsed as a flag.
      const args = [action!, ...given, ...once, ...(words.length === 0 ? [] : ["--", ...words])];
      return await onOneNode(kubectl, selection, node!, args, invocation);
    } catch (error) {
      if (!(error instanceof KubectlError)) throw error;
      writeToStderr(`sluice: ${error.message}\n`);
      return NO_ANSWER;
    }
  },
};

/** The flags of all actions that are none of `OWN`, each once, with the values that any of them takes. */
function flagsOfAll(): readonly Flag[] {
  const all = new Map<string, Flag>();
  for (const flag of [STATUS, ...ON_ONE_NODE].flatMap(({ flags }) => flags)) {
    if (OWN.some(({ name }) => name === flag.name)) continue;
    const values = [...new Set([...all.get(flag.name)?.values ?? [], ...flag.values ?? []])];
    all.set(flag.name, values.length === 0 ? flag : { ...flag, values });
  }
  return [...all.values()];
}

function flagsFor(
  { name, flags }: { readonly name: string; readonly flags: readonly Flag[] },
  invocation: Invocation,
): readonly string[] {
  const words: string[] = [];
  for (const [given, value] of invocation.flags) {
    if (OWN.some(({ name }) => name === given)) continue;
    const flag = flags.find(({ name }) => name === given);
    if (flag === undefined) throw new UsageError(`${name} of another node takes no --${given}`);
    const text = String(value);
    if (flag.values !== undefined && !flag.values.includes(text)) {
      throw new UsageError(`--${given} is ${JSON.stringify(text)}: ${name} takes ${flag.values.join(" or ")}`);
    }
    words.push(`--${given}=${text}`);
  }
  return words;
}

async function status(
  kubectl: Kubectl,
  selection: PodSelection,
  node: string | undefined,
  invocation: Invocation,
): Promise<number> {
  const { exitStatusOf, readInventory, showProgress, surveyNodes } = await import("../cluster/mod.ts");
  let progress = "sluice: listing nodes and pods";
  const end = showProgress(invocation.clock, () => progress, writeToStderr, Deno.stderr.isTerminal());
  try {
    const { entries, nodesUnknown } = await readInventory(kubectl, selection);
    const asked = node === undefined ? entries : [entryOf(node, entries)];
    const onAnswer = (answers: number) => progress = `sluice: ${answers} of ${asked.length} nodes asked`;
    onAnswer(0);
    const reports = await surveyNodes(kubectl, asked, selection, onAnswer);
    end();
    if (nodesUnknown !== undefined) {
      writeToStderr(`sluice: cannot list nodes, showing those with a pod: ${nodesUnknown}\n`);
    }
    if (reports.every(({ answer }) => answer === "no pod")) {
      const { namespace, selector } = selection;
      writeToStderr(
        `sluice: no pod has the labels ${selector} in namespace ${namespace} (use -n and -l; a node where Sluice is a ` +
          `system service answers only to sluice status on it)\n`,
      );
    }
    const { clusterLines } = await import("../text/mod.ts");
    printAs(invocation, { nodes: reports }, () => linesText(clusterLines(reports)));
    return exitStatusOf(reports);
  } finally {
    end();
  }
}

/** Runs a command on a node, prints its output and returns its exit status. */
async function onOneNode(
  kubectl: Kubectl,
  selection: PodSelection,
  node: string,
  args: readonly string[],
  { print }: Invocation,
): Promise<number> {
  const { askNode, KubectlError, readInventory } = await import("../cluster/mod.ts");
  const { entries } = await readInventory(kubectl, selection);
  const { pod, ready } = entryOf(node, entries);
  if (pod === undefined) {
    const { namespace, selector } = selection;
    throw new KubectlError(`node ${node} has no pod with the labels ${selector} in namespace ${namespace}`);
  }
  try {
    const onLine = (line: string) => print(`${printable(line)}\n`);
    const { exitCode, stderr } = await askNode(kubectl, { node, ready, pod }, args, selection, onLine);
    if (stderr !== "") writeToStderr(`${stderr.split("\n").map(printable).join("\n")}\n`);
    return exitCode;
  } catch (error) {
    if (!(error instanceof KubectlError)) throw error;
    throw new KubectlError(`node ${node} does not answer`, errorText(error));
  }
}

/** The entry of a node. Throws an Error with the nearest name if there is none. */
function entryOf(name: string, entries: readonly NodeEntry[]): NodeEntry {
  const entry = entries.find(({ node }) => node === name);
  if (entry !== undefined) return entry;
  const hint = suggestion(name, entries.map(({ node }) => node));
  throw new UsageError(`there is no node ${JSON.stringify(name)}${hint}`);
}
