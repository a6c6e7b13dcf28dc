/**
 * `sluice serve`: a program of its own in the same executable. A proxy loads nothing of it, and it loads nothing of a proxy.
 *
 *   run.ts            the program, assembled top to bottom; an entry of its own, which only the command `serve` loads
 *   cluster_store.ts  a store with the cluster's state, also for the commands that print, export and check it
 *   certificates.ts   checks and renews the server's certificates
 *   operator.ts       its metrics, and the health server and the metrics server
 *
 * In: a source and addresses. Out: the cluster's state to watchers, health and metrics. May touch: the network, listening
 * sockets, PEM files.
 */
export { readServerCertificate } from "./certificates.ts";
export { openClusterStore } from "./cluster_store.ts";
