/**
 * Sluice on all nodes of a cluster, asked from a workstation through `kubectl exec`.
 *
 *   kubectl.ts      runs kubectl with the user's flags, and classifies its failures
 *   inventory.ts    the nodes and their pods of Sluice
 *   node_status.ts  reads the status of a node, which may be of another version
 *   survey.ts       the status of all nodes, the worst first
 *   ask_node.ts     runs a command on one node
 *   progress.ts     progress of a survey on standard error
 *
 * In: a runner. Out: reports. May touch: kubectl.
 */
export { askNode } from "./ask_node.ts";
export { type Inventory, type NodeEntry, readInventory } from "./inventory.ts";
export { createKubectl, type Kubectl, KubectlError } from "./kubectl.ts";
export { showProgress } from "./progress.ts";
export { exitStatusOf, type NodeReport, surveyNodes } from "./survey.ts";
