import { canonicalAddress, type Family, familyOf, LOOPBACK_ADDRESS, sameData } from "../../platform/mod.ts";
import type { Node } from "../objects/mod.ts";
import { serviceKey } from "./service_key.ts";

/** The state of the node that this process runs on. */
export interface NodeState {
  /** Its address in each family: the bind address, else the Node's first one, else the loopback address. */
  readonly nodeIPs: Readonly<Record<Family, string>>;
  /** The family of its first address; the one to serve if only one can be. */
  readonly primaryFamily: Family;
  /** The first pod CIDR in each family. */
  readonly podCIDRs: Readonly<Record<Family, string | undefined>>;
  /** Its zone; empty if unknown. */
  readonly zone: string;
  /** Whether it is about to be deleted. */
  readonly leaving: boolean;
  /** Whether its Node object has ever existed. */
  readonly known: boolean;
  /** Whether its Node object was deleted; all other fields then keep their last values. */
  readonly deleted: boolean;
}

/** A change of this node. */
export interface NodeChange {
  readonly after: NodeState;
  /** The changed fields; never empty. */
  readonly changed: readonly (keyof NodeState)[];
}

/** Tracks the Node object of this node, by its key `/name`; ignores others. */
export interface NodeTracker {
  set(key: string, node: Node): void;
  delete(key: string): void;
  /** The key of the Node object, if it exists. */
  keys(): Iterable<string>;
  /** The Node object, if it exists. */
  values(): Iterable<Node>;
  state(): NodeState;
  /** The UID of the Node object, empty if the source does not say; undefined while the object does not exist. */
  uid(): string | undefined;
  /** Whether a pod CIDR of this node is known. */
  hasPodCIDR(): boolean;
  pending(): boolean;
  /** The change since the last `take`; undefined if there is none. */
  take(): NodeChange | undefined;
}

/**
 * A tracker without a Node yet. It chooses node addresses as kube-proxy's detectNodeIPs does; a bind address that is empty or
 * unspecified (`0.0.0.0`, `::`) is ignored.
 */
export function createNodeTracker(
  options: { readonly nodeName: string; readonly bindAddress: string },
): NodeTracker {
  const bindAddress = boundTo(options.bindAddress), ownKey = serviceKey("", options.nodeName);
  let present: Node | undefined;
  let state = withBindAddress({
    nodeIPs: LOOPBACK_ADDRESS,
    primaryFamily: "IPv4",
    podCIDRs: { IPv4: undefined, IPv6: undefined },
    zone: "",
    leaving: false,
    known: false,
    deleted: false,
  }, bindAddress);
  let taken = state;

  return {
    set(key, node) {
      if (key !== ownKey) return;
      present = node;
      const described = withBindAddress(describe(node, state), bindAddress);
      state = sameData(described, taken) ? taken : described;
    },
    delete(key) {
      if (key !== ownKey || present === undefined) return;
      present = undefined;
      state = { ...state, deleted: true };
    },
    keys: () => present === undefined ? [] : [ownKey],
    values: () => present === undefined ? [] : [present],
    state: () => state,
    uid: () => present && (present.uid ?? ""),
    hasPodCIDR: () => Object.values(state.podCIDRs).some((prefix) => prefix !== undefined),
    pending: () => state !== taken,
    take() {
      if (state === taken) return undefined;
      const before = taken;
      taken = state;
      const names = Object.keys(state) as (keyof NodeState)[];
      return { after: state, changed: names.filter((name) => !sameData(before[name], taken[name])) };
    },
  };
}

function boundTo(bindAddress: string): string | undefined {
  const address = canonicalAddress(bindAddress);
  return address === "0.0.0.0" || address === "::" ? undefined : address;
}

function withBindAddress(state: NodeState, address: string | undefined): NodeState {
  if (address === undefined) return state;
  const primaryFamily = familyOf(address);
  return { ...state, primaryFamily, nodeIPs: { ...state.nodeIPs, [primaryFamily]: address } };
}

function describe(node: Node, before: NodeState): NodeState {
  const [first] = node.addresses;
  const addresses = byFamily(node.addresses);
  return {
    // A Node that temporarily has no address keeps its last ones, as in kube-proxy.
    nodeIPs: first === undefined
      ? before.nodeIPs
      : { IPv4: addresses.IPv4 ?? LOOPBACK_ADDRESS.IPv4, IPv6: addresses.IPv6 ?? LOOPBACK_ADDRESS.IPv6 },
    primaryFamily: first === undefined ? before.primaryFamily : familyOf(first),
    // The same for pod CIDRs, on whose loss kube-proxy exits (NodeManager.OnNodeChange).
    podCIDRs: node.podCIDRs.length === 0 ? before.podCIDRs : byFamily(node.podCIDRs),
    zone: node.zone,
    leaving: node.leaving,
    known: true,
    deleted: false,
  };
}

function byFamily(canonical: readonly string[]): Record<Family, string | undefined> {
  const first = (family: Family) => canonical.find((one) => familyOf(one) === family);
  return { IPv4: first("IPv4"), IPv6: first("IPv6") };
}
