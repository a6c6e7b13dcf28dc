/** How a service port is balanced, for explanations and lists. */
import { type Balance, balancedList, balanceShares, isCounted, type ServicePort } from "../core/model/mod.ts";

/** The shares of new connections that an endpoint gets, from 0 to 1; undefined where the kernel's scheduler or the client decides. */
export interface EndpointShares {
  /** The share of connections with traffic policy Cluster; absent if it gets none. */
  readonly cluster?: number;
  /** The share of connections with traffic policy Local. */
  readonly local?: number;
  /** Its open connections; absent unless its shares follow from them. */
  readonly open?: number;
}

/** The shares of the endpoints that a policy uses, in their order; undefined if they do not follow from the algorithm. */
export function sharesOfPolicy(port: ServicePort, policy: "cluster" | "local"): readonly number[] | undefined {
  return balanceShares(port.balance, balancedList(port, policy));
}

/**
 * The shares of each endpoint in use, by target; empty for a service port without a decision about balancing.
 * @param openConnections the open connections of an endpoint; undefined if they are not counted
 */
export function sharesByTarget(
  port: ServicePort,
  openConnections: (target: string) => number | undefined,
): ReadonlyMap<string, EndpointShares> {
  const found = new Map<string, EndpointShares>();
  if (port.balance === undefined) return found;
  for (const policy of ["cluster", "local"] as const) {
    const targets = policy === "cluster" ? port.clusterEndpoints : port.localEndpoints;
    sharesOfPolicy(port, policy)?.forEach((share, i) => {
      const open = isCounted(port.balance!) ? openConnections(targets[i]!) : undefined;
      found.set(targets[i]!, { ...found.get(targets[i]!), [policy]: share, ...open !== undefined && { open } });
    });
  }
  return found;
}

/** An algorithm in a word or two: `consistent-hash by client, weighted`. */
export function balanceText(balance: Balance): string {
  const hash = balance.algorithm === "consistent-hash" ? ` by ${balance.hash}` : "";
  return `${balance.algorithm}${hash}${isWeighted(balance) ? ", weighted" : ""}`;
}

/** How a connection gets its endpoint, after `goes to one of 3 endpoints `. */
export function choiceText(balance: Balance | undefined): string {
  if (balance === undefined) return "with equal probability";
  const weighted = isWeighted(balance) ? ", by weight" : "";
  switch (balance.algorithm) {
    case "random":
      return "at random, by weight";
    case "round-robin":
      return `in turn${weighted}`;
    case "consistent-hash":
      return `by a hash of the client's address${balance.hash === "client" ? "" : " and port"}${weighted}`;
    case "least-connections":
      return isCounted(balance) ? "at random, weighted by open connections" : `with the fewest connections${weighted}`;
    default:
      return `by the scheduler ${balance.algorithm}${weighted}`;
  }
}

function isWeighted({ clusterWeights, localWeights }: Balance): boolean {
  return clusterWeights !== undefined || localWeights !== undefined;
}

/** Shares in percent: `25 %`, or `25 %, 12 open`; both policies' if they differ; empty if none is known. */
export function sharesText({ cluster, local, open }: EndpointShares): string {
  if (cluster === undefined && local === undefined) return "";
  const counted = open === undefined ? "" : `, ${open} open`;
  if (cluster === undefined || local === undefined || cluster === local) return percent(cluster ?? local!) + counted;
  return `${percent(cluster)}, Local ${percent(local)}${counted}`;
}

function percent(share: number): string {
  return `${Number((share * 100).toFixed(1))} %`;
}
