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
interface LostFrontend<C extends Claimant> {
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
  // Most frontends have one claimant, which is stored without an array to save memory. Of several, the winner is the first, so that
  // a tenant with very many contested frontends does not hold up the planning of all.
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
        if (others.length === 0) holders.set(id, claimant);
        else holders.set(id, precedes(claimant, others[0]!, id) ? [claimant, ...others] : [...others, claimant]);
        rivals.push(...others);
      }
      return rivals;
    },
    release(claimant) {
      const rivals: C[] = [];
      for (const frontend of frontendsOf(claimant.wanted)) {
        const id = frontendID(frontend);
        const held = claimantsOf(id), left = held.filter((other) => other !== claimant);
        const others = held[0] === claimant ? winnerFirst(left, id) : left;
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
        const winner = claimantsOf(id)[0]!;
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

function winnerFirst<C extends Claimant>(claimants: readonly C[], id: string): readonly C[] {
  if (claimants.length <= 1) return claimants;
  const winner = claimants.reduce((a, b) => precedes(b, a, id) ? b : a);
  return [winner, ...claimants.filter((one) => one !== winner)];
}

/** The ranks of the frontends of service ports that share one with another. */
const ranks = new WeakMap<ServicePort, ReadonlyMap<string, number>>();

function rankOf({ wanted }: Claimant, id: string): number {
  let found = ranks.get(wanted);
  if (found === undefined) {
    // Of equal frontends, the first counts.
    found = new Map(frontendsOf(wanted).toReversed().map((one) => [frontendID(one), RANKS.indexOf(one.kind)]));
    ranks.set(wanted, found);
  }
  return found.get(id)!;
}

function precedes(a: Claimant, b: Claimant, id: string): boolean {
  const created = ({ createdSeconds = Number.MAX_SAFE_INTEGER }: Claimant) => createdSeconds;
  return (rankOf(a, id) - rankOf(b, id) || created(a) - created(b) || (a.key < b.key ? -1 : 1)) < 0;
}

function describe({ kind, address, port, protocol }: Frontend): string {
  const at = kind === "nodePort" ? `node port ${port}` : joinHostPort(address, port);
  return `${at}/${protocol.toUpperCase()}`;
}
