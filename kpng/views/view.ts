import type { ClusterScoped, ServiceState } from "../store/mod.ts";

/** One entry of a set: what the wire's `Value` carries. */
export interface WireItem {
  /** The number of its set. */
  readonly set: number;
  readonly path: string;
  /** Of its content: an item whose hash is the same is not sent again. */
  readonly hash: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** The cluster as one kind of watcher sees it: everything about a service follows from its state alone. */
export interface View {
  service(state: ServiceState): WireItem | undefined;
  /** May leave out what is surely the same in `other`, an earlier or later state of the same service. */
  endpoints(state: ServiceState, other: ServiceState | undefined): readonly WireItem[];
  scoped(object: ClusterScoped): WireItem | undefined;
}
