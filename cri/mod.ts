/**
 * The pods that the container runtime of this node keeps running, and their addresses (CRI, the Container Runtime Interface).
 *
 *   live_pod.ts    the result
 *   messages.ts    the runtime's messages
 *   pods.ts        reads the pods
 *   watch_pods.ts  reads them again and again
 *
 * In: the runtime's socket. Out: pods. May touch: that socket; it only lists sandboxes and reads their status.
 */
export type { LivePod, PodReport, PodWatch } from "./live_pod.ts";
export { watchPods } from "./watch_pods.ts";
