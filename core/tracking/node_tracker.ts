import { canonicalAddress, type Family, familyOf, sameData } from "../../platform/mod.ts";
import type { Node } from "../objects/mod.ts";

/** What there is to know of the node that this process runs on. */
export interface NodeState {
  /**
   * Its address in each family: the bind address where one was given; otherwise the Node's first of that family;
   * otherwise the loopback address.
   */
  readonly nodeIPs: Readonly<Record<Family, string>>;
  /** The family of the address that comes first: the one to keep to where only one can be served. */
  readonly primaryFamily: Family;
  /** The prefix of its pods in each family, the first where there are several. */
  readonly podCIDRs: Readonly<Record<Family, string | undefined>>;
  /** Its zone; empty where it is not told. */
  readonly zone: string;
  /** Whether it is about to go away. */
  readonly leaving: boolean;
  /** Whether its Node object has been there at all. */
  readonly known: boolean;
  /** Whether its Node object was there and is gone; all else then stays as it last was. */
  readonly deleted: boolean;
}

/** How this node changed. */
export interface NodeChange {
  readonly before: NodeState;
  readonly after: NodeState;
  /** What of it changed; never empty. */
  readonly changed: readonly (keyof NodeState)[];
}

/** Keeps what the Node object of this node says; others are ignored. */
export interface NodeTracker {
  update(node: Node): void;
  delete(name: string): void;
  /** The name of the Node object that is known, if any. */
  keys(): Iterable<string>;
  state(): NodeState;
  /** Whether a pod CIDR of this node is known. */
  hasPodCIDR(): boolean;
  pending(): boolean;
  /** How it changed since the last `take`, undefined where it did not. */
  take(): NodeChange | undefined;
}

/** Which node it is about. */
export interface NodeTrackerOptions {
  readonly nodeName: string;
  /** kube-proxy's bindAddress; one that is empty or unspecified (`0.0.0.0`, `::`) names no address. */
  readonly bindAddress: string;
}

const LOOPBACK: Readonly<Record<Family, string>> = { IPv4: "127.0.0.1", IPv6: "::1" };

/** A tracker that does not know the Node yet; node addresses as in kube-proxy's detectNodeIPs. */
export function createNodeTracker(options: NodeTrackerOptions): NodeTracker {
  const bindAddress = boundTo(options.bindAddress);
  let present = false;
  let state = withBindAddress({
    nodeIPs: LOOPBACK,
    primaryFamily: "IPv4",
    podCIDRs: { IPv4: undefined, IPv6: undefined },
    zone: "",
    leaving: false,
    known: false,
    deleted: false,
  }, bindAddress);
  let taken = state;

  return {
    update(node) {
      if (node.name !== options.nodeName) return;
      present = true;
      const described = withBindAddress(describe(node, state), bindAddress);
      state = sameData(described, taken) ? taken : described;
    },
    delete(name) {
      if (name !== options.nodeName || !present) return;
      present = false;
      state = { ...state, deleted: true };
    },
    keys: () => present ? [options.nodeName] : [],
    state: () => state,
    hasPodCIDR: () => Object.values(state.podCIDRs).some((prefix) => prefix !== undefined),
    pending: () => state !== taken,
    take() {
      if (state === taken) return undefined;
      const before = taken;
      taken = state;
      const names = Object.keys(state) as (keyof NodeState)[];
      return { before, after: state, changed: names.filter((name) => !sameData(before[name], taken[name])) };
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
    // A Node that for a while has no address keeps the ones it had, as in kube-proxy.
    nodeIPs: first === undefined
      ? before.nodeIPs
      : { IPv4: addresses.IPv4 ?? LOOPBACK.IPv4, IPv6: addresses.IPv6 ?? LOOPBACK.IPv6 },
    primaryFamily: first === undefined ? before.primaryFamily : familyOf(first),
    // As with the addresses; kube-proxy ends and waits for the next ones (NodeManager.OnNodeChange).
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
