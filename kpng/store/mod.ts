/**
 * Every revision of the cluster's state that a watcher may still need.
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
