/**
 * Sluice on all nodes of a cluster, asked from a workstation through `kubectl exec`.
 *
 *   kubectl.ts      runs kubectl with the user's flags, classifies its failures, and lists the nodes and their pods of Sluice
 *   survey.ts       the status of all nodes, the worst first
 *
 * In: a runner. Out: reports. May touch: kubectl.
 */
export {
  askNode,
  createKubectl,
  type Kubectl,
  KubectlError,
  type NodeEntry,
  type PodSelection,
  readInventory,
} from "./kubectl.ts";
export { exitStatusOf, type NodeReport, showProgress, surveyNodes } from "./survey.ts";
