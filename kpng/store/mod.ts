/**
 * The cluster's state with recent revisions, for watchers.
 *
 *   store.ts          services with their slices, and cluster-scoped objects
 *   versions.ts       values with the versions that were replaced
 *   service_state.ts  the state of one service
 *
 * In: objects from a source. Out: the state, and differences between revisions. May touch: the clock.
 */
export type { ServiceState } from "./service_state.ts";
export { type ClusterScoped, createStore, type Store, type StoreDifference, type StoreState } from "./store.ts";
export type { Change } from "./versions.ts";
