/**
 * The cluster's state with recent revisions, for watchers.
 *
 * In: objects from a source. Out: the state, and differences between revisions. May touch: the clock.
 */
export type { ServiceState } from "./service_state.ts";
export {
  type Change,
  type ClusterScoped,
  createStore,
  type Store,
  type StoreDifference,
  type StoreState,
} from "./store.ts";
