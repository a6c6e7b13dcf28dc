import { joinFlat, joinHostPort } from "../../platform/mod.ts";
import { type Frontend, type FrontendKind, frontendsOf, type ServicePort, type ServicePortKey } from "../model/mod.ts";

/** A service port that claims its frontends. */
export interface Claimant {
  readonly key: ServicePortKey;
  /** When its service was created, in seconds since 1970; undefined if unknown. */
  readonly createdSeconds: number | undefined;
  /** The service port with all frontends that its service specifies. */
  readonly wanted: ServicePort;
}

/** A frontend that a service port lost to another. */
export interface LostFrontend<C extends Claimant> {
  /** As text: `10.0.0.1:80/TCP`, `node port 30080/TCP`. */
  readonly frontend: string;
  readonly winner: C;
}

/** The result of a claim. */
export interface Settlement<C extends Claimant> {
  /** The service port with the frontends that it won; undefined if it lost its cluster IP. */
  readonly port: ServicePort | undefined;
  readonly lost: readonly LostFrontend<C>[];
}

/**
 * Assigns each frontend of a family (an address, port and protocol, or a node port and protocol) to one service port. Cluster
 * IPs take precedence over load balancer IPs, and these over external IPs, so that no service can take over the cluster IP of
 * another. Among equals the oldest service wins, so that no later one takes over its address; then the first name. A service
 * of unknown age counts as the youngest. The order of the claims does not matter.
 */
export interface FrontendClaims<C extends Claimant> {
  /** Adds a claimant and returns the claimants that share a frontend with it. */
  claim(claimant: C): readonly C[];
  /** Removes a claimant, unchanged since it was added, and returns the claimants that shared a frontend with it. */
  release(claimant: C): readonly C[];
  /** Returns the frontends that an added claimant wins and loses. */
  settle(claimant: C): Settlement<C>;
}

const RANKS: readonly FrontendKind[] = ["clusterIP", "loadBalancerIP", "externalIP", "nodePort"];

/** Identifies a frontend: equal for equal frontends of all service ports. */
function frontendID({ kind, address, port, protocol }: Frontend): string {
  return kind === "nodePort" ? joinFlat("|", port, protocol) : joinFlat("|", address, port, protocol);
}

/** Creates an index without claims. */
export function createFrontendClaims<C extends Claimant>(): FrontendClaims<C> {
  // Most frontends have one claimant, which is stored without an array to save memory.
  const holders = new Map<string, C | readonly C[]>();
  /** The number of frontends with several claimants. */
  let contested = 0;

  const claimantsOf = (id: string): readonly C[] => {
    const held = holders.get(id);
    return held === undefined ? [] : "key" in held ? [held] : held;
  };

  return {
    claim(claimant) {
      const rivals: C[] = [];
      for (const frontend of frontendsOf(claimant.wanted)) {
        const id = frontendID(frontend);
        const others = claimantsOf(id);
        if (others.length === 1) contested++;
        holders.set(id, others.length === 0 ? claimant : [...others, claimant]);
        rivals.push(...others);
      }
      return rivals;
    },
    release(claimant) {
      const rivals: C[] = [];
      for (const frontend of frontendsOf(claimant.wanted)) {
        const id = frontendID(frontend);
        const others = claimantsOf(id).filter((other) => other !== claimant);
        if (others.length === 1) contested--;
        if (others.length === 0) holders.delete(id);
        else holders.set(id, others.length === 1 ? others[0]! : others);
        rivals.push(...others);
      }
      return rivals;
    },
    settle(claimant) {
      const { wanted } = claimant;
      if (contested === 0) return { port: wanted, lost: [] };
      const lost: LostFrontend<C>[] = [];
      const kept: Frontend[] = [];
      for (const frontend of frontendsOf(wanted)) {
        const id = frontendID(frontend);
        const winner = claimantsOf(id).reduce((a, b) => precedes(b, a, id) ? b : a);
        if (winner === claimant) kept.push(frontend);
        else lost.push({ frontend: describe(frontend), winner });
      }
      if (lost.length === 0) return { port: wanted, lost };
      if (!kept.some(({ kind }) => kind === "clusterIP")) return { port: undefined, lost };
      const keptOf = (kind: FrontendKind) => kept.filter((one) => one.kind === kind).map((one) => one.address);
      const port: ServicePort = {
        ...wanted,
        loadBalancerIPs: keptOf("loadBalancerIP"),
        externalIPs: keptOf("externalIP"),
        nodePort: keptOf("nodePort").length > 0 ? wanted.nodePort : 0,
      };
      return { port, lost };
    },
  };
}

/** Whether two plans have the same frontends, each of the same kind. */
export function sameFrontends(a: ServicePort, b: ServicePort): boolean {
  const left = frontendsOf(a), right = frontendsOf(b);
  return left.length === right.length &&
    left.every((one, i) => one.kind === right[i]!.kind && frontendID(one) === frontendID(right[i]!));
}

function precedes(a: Claimant, b: Claimant, id: string): boolean {
  const rank = ({ wanted }: Claimant) => RANKS.indexOf(frontendsOf(wanted).find((one) => frontendID(one) === id)!.kind);
  const created = ({ createdSeconds = Number.MAX_SAFE_INTEGER }: Claimant) => createdSeconds;
  return (rank(a) - rank(b) || created(a) - created(b) || (a.key < b.key ? -1 : 1)) < 0;
}

function describe({ kind, address, port, protocol }: Frontend): string {
  const at = kind === "nodePort" ? `node port ${port}` : joinHostPort(address, port);
  return `${at}/${protocol.toUpperCase()}`;
}
