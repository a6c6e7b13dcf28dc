/** How a service port is balanced, for explanations and lists. */
import { type Balance, balanceShares, type ServicePort } from "../core/model/mod.ts";

/** The shares of new connections that an endpoint gets, from 0 to 1; undefined where the load or the client decides. */
export interface EndpointShares {
  /** The share of connections with traffic policy Cluster; absent if it gets none. */
  readonly cluster?: number;
  /** The share of connections with traffic policy Local. */
  readonly local?: number;
}

type PolicyName = keyof EndpointShares;

/** The shares of the endpoints that a policy uses, in their order; undefined if they do not follow from the algorithm. */
export function sharesOfPolicy(
  { balance, clusterEndpoints, localEndpoints }: ServicePort,
  policy: PolicyName,
): readonly number[] | undefined {
  return policy === "cluster"
    ? balanceShares(balance, { endpoints: clusterEndpoints, weights: balance?.clusterWeights })
    : balanceShares(balance, { endpoints: localEndpoints, weights: balance?.localWeights });
}

/** The shares of each endpoint in use, by target; empty for a service port without a decision about balancing. */
export function sharesByTarget(port: ServicePort): ReadonlyMap<string, EndpointShares> {
  const found = new Map<string, EndpointShares>();
  if (port.balance === undefined) return found;
  for (const policy of ["cluster", "local"] as const) {
    const targets = policy === "cluster" ? port.clusterEndpoints : port.localEndpoints;
    sharesOfPolicy(port, policy)?.forEach((share, i) => {
      found.set(targets[i]!, { ...found.get(targets[i]!), [policy]: share });
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
      return `with the fewest connections${weighted}`;
    default:
      return `by the scheduler ${balance.algorithm}${weighted}`;
  }
}

function isWeighted({ clusterWeights, localWeights }: Balance): boolean {
  return clusterWeights !== undefined || localWeights !== undefined;
}

/** Shares in percent: `25 %`; both policies' if they differ; empty if none is known. */
export function sharesText({ cluster, local }: EndpointShares): string {
  if (cluster === undefined && local === undefined) return "";
  if (cluster === undefined || local === undefined || cluster === local) return percent(cluster ?? local!);
  return `${percent(cluster)}, Local ${percent(local)}`;
}

function percent(share: number): string {
  return `${Number((share * 100).toFixed(1))} %`;
}
