import { joinFlat, joinHostPort } from "../../platform/mod.ts";
import { type Frontend, type FrontendKind, frontendsOf, type ServicePort, type ServicePortKey } from "../model/mod.ts";

/** A service port that wants its frontends for itself. */
export interface Claimant {
  readonly key: ServicePortKey;
  /** As planned, with all the frontends that its service asks for. */
  readonly wanted: ServicePort;
}

/** A frontend that a service port asks for and does not get. */
export interface LostFrontend<C extends Claimant> {
  /** As a person writes it: `10.0.0.1:80/TCP`, `node port 30080/TCP`. */
  readonly frontend: string;
  readonly winner: C;
}

/** A claimant without the frontends that belong to others. */
export interface Settlement<C extends Claimant> {
  /** What is left of it; undefined where its cluster IP is not, without which there is no service port. */
  readonly port: ServicePort | undefined;
  readonly lost: readonly LostFrontend<C>[];
}

/**
 * Who has which frontend of a family. A frontend (an address, port and protocol; a node port and protocol) belongs to
 * one service port: a cluster IP goes before a load balancer IP, that before an external IP, so that nobody takes
 * another's cluster IP by naming it; among equals the first by name. History does not count.
 */
export interface FrontendClaims<C extends Claimant> {
  /** Enters a claimant; returns those that now share a frontend with it. */
  claim(claimant: C): readonly C[];
  /** Withdraws a claimant, its plan being what it was when it was entered; returns those it shared a frontend with. */
  release(claimant: C): readonly C[];
  /** What a claimant that is entered gets. */
  settle(claimant: C): Settlement<C>;
}

const RANKS: readonly FrontendKind[] = ["clusterIP", "loadBalancerIP", "externalIP", "nodePort"];

/** Identifies a frontend: equal for equal frontends of all service ports. */
function frontendID({ kind, address, port }: Frontend, { protocol }: ServicePort): string {
  return kind === "nodePort" ? joinFlat("|", port, protocol) : joinFlat("|", address, port, protocol);
}

/** An index without claims. */
export function createFrontendClaims<C extends Claimant>(): FrontendClaims<C> {
  // Nearly every frontend has one claimant, which then needs no array around it.
  const holders = new Map<string, C | readonly C[]>();
  /** How many frontends have several. */
  let contested = 0;

  const claimantsOf = (id: string): readonly C[] => {
    const held = holders.get(id);
    return held === undefined ? [] : "key" in held ? [held] : held;
  };

  return {
    claim(claimant) {
      const rivals: C[] = [];
      for (const frontend of frontendsOf(claimant.wanted)) {
        const id = frontendID(frontend, claimant.wanted);
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
        const id = frontendID(frontend, claimant.wanted);
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
        const id = frontendID(frontend, wanted);
        const winner = claimantsOf(id).reduce((a, b) => precedes(b, a, id) ? b : a);
        if (winner === claimant) kept.push(frontend);
        else lost.push({ frontend: describe(frontend, wanted), winner });
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

/** Whether two plans ask for the same frontends, each as the same kind. */
export function sameFrontends(a: ServicePort, b: ServicePort): boolean {
  const left = frontendsOf(a), right = frontendsOf(b);
  return a.protocol === b.protocol && left.length === right.length && left.every(({ kind, address, port }, i) => {
    const other = right[i]!;
    return kind === other.kind && address === other.address && port === other.port;
  });
}

/** Whether claimant `a` wins a frontend over `b`. */
function precedes(a: Claimant, b: Claimant, id: string): boolean {
  const rank = ({ wanted }: Claimant) =>
    RANKS.indexOf(frontendsOf(wanted).find((one) => frontendID(one, wanted) === id)!.kind);
  return (rank(a) - rank(b) || (a.key < b.key ? -1 : 1)) < 0;
}

function describe({ kind, address }: Frontend, port: ServicePort): string {
  const protocol = port.protocol.toUpperCase();
  return kind === "nodePort"
    ? `node port ${port.nodePort}/${protocol}`
    : `${joinHostPort(address, port.port)}/${protocol}`;
}
