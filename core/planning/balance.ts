import {
  type Balance,
  BALANCE_ALGORITHMS,
  BALANCE_HASHES,
  type BalanceAlgorithm,
  type BalanceHash,
  countedSlots,
  IPVS_SCHEDULERS,
  MOST_CONSISTENT_HASH_ENDPOINTS,
  MOST_COUNTED_ENDPOINTS,
  type Protocol,
  type ServicePortKey,
} from "../model/mod.ts";
import {
  type LabelKeys,
  LONGEST_ANNOTATION,
  OWN_ANNOTATIONS,
  type OwnAnnotation,
  quote,
  type Service,
} from "../objects/mod.ts";
import type { EndpointLabels, ServiceEndpoint } from "../tracking/mod.ts";
import { orList } from "../../platform/mod.ts";
import { readWeightTerms, weightOf, type WeightTerm } from "./weight_terms.ts";

/** The algorithm of services that do not ask for one. */
interface DefaultBalance {
  /** Undefined for the mode's own default. */
  readonly algorithm: BalanceAlgorithm | undefined;
  readonly hash: BalanceHash;
}

/** How services can be balanced on this node. */
export interface BalanceOptions {
  /** The name of the mode, for problems. */
  readonly mode: string;
  /** The algorithms of the mode. */
  readonly algorithms: readonly BalanceAlgorithm[];
  /** The algorithm of a service port without `Balance`. */
  readonly modeDefault: BalanceAlgorithm;
  readonly byDefault: DefaultBalance;
  /** Whether each slot of a table is an element in the kernel for each frontend, so that tables need a budget. */
  readonly tablesAreInKernel?: boolean;
  /** Whether this node counts connections for `least-connections`, of TCP, and not the kernel's scheduler. */
  readonly countsConnections?: boolean;
  /** The labels that weights may refer to. */
  readonly labelKeys: LabelKeys;
}

/** How a service is balanced: the annotations that the mode supports. */
interface BalanceRequest {
  /** Undefined for the mode's default. */
  readonly algorithm: BalanceAlgorithm | undefined;
  readonly hash: BalanceHash;
  /** Undefined for equal weights. */
  readonly terms: readonly WeightTerm[] | undefined;
  /** The parts of the annotations that have no effect, one sentence each. */
  readonly problems: readonly string[];
}

const NO_PROBLEMS: readonly string[] = Object.freeze([]);

/** The annotations that say how a Service is balanced. */
export const BALANCE_ANNOTATIONS: readonly OwnAnnotation[] = ["balance", "affinityHash", "weights"];

/** Reads the balancing annotations of a service. */
export function balanceRequest({ own }: Pick<Service, "own">, options: BalanceOptions): BalanceRequest {
  const { byDefault } = options;
  if (own === undefined) return { ...byDefault, terms: undefined, problems: NO_PROBLEMS };
  const problems: string[] = [];
  const textOf = (name: OwnAnnotation) => {
    const text = own[name];
    if (text === undefined || text.length <= LONGEST_ANNOTATION) return text;
    problems.push(`annotation ${OWN_ANNOTATIONS[name]} is longer than ${LONGEST_ANNOTATION} characters`);
    return undefined;
  };
  const [balance, affinityHash, weights] = [textOf("balance"), textOf("affinityHash"), textOf("weights")];
  const algorithm = balance === undefined ? byDefault.algorithm : readAlgorithm(balance, options, problems);
  const hash = affinityHash === undefined
    ? byDefault.hash
    : readHash(affinityHash, algorithm, byDefault.hash, problems);
  const terms = weights === undefined ? undefined : readTerms(weights, options, problems);
  return { algorithm, hash, terms, problems };
}

function readAlgorithm(
  text: string,
  { mode, algorithms, modeDefault, byDefault }: BalanceOptions,
  problems: string[],
): BalanceAlgorithm | undefined {
  const wanted = text.trim();
  const found = algorithms.find((algorithm) => algorithm === wanted);
  if (found !== undefined) return found === modeDefault ? undefined : found;
  const instead = balancedBy(byDefault.algorithm ?? modeDefault);
  const known: readonly string[] = [...BALANCE_ALGORITHMS, ...IPVS_SCHEDULERS];
  problems.push(
    known.includes(wanted)
      ? `annotation ${OWN_ANNOTATIONS.balance}: ${mode} mode has no ${wanted}; ${instead}`
      : `annotation ${OWN_ANNOTATIONS.balance} is ${quote(text)}, not ${orList(algorithms)}; ${instead}`,
  );
  return byDefault.algorithm;
}

/** How a service is balanced instead, at the end of a problem. */
function balancedBy(algorithm: BalanceAlgorithm): string {
  return algorithm === "random" ? "balanced at random" : `balanced by ${algorithm}`;
}

function readHash(
  text: string,
  algorithm: BalanceAlgorithm | undefined,
  byDefault: BalanceHash,
  problems: string[],
): BalanceHash {
  const field = `annotation ${OWN_ANNOTATIONS.affinityHash}`;
  const found = BALANCE_HASHES.find((hash) => hash === text.trim());
  if (found === undefined) {
    problems.push(`${field} is ${quote(text)}, not ${orList(BALANCE_HASHES)}; using ${byDefault}`);
  } else if (algorithm !== "consistent-hash") problems.push(`${field} has no effect without consistent-hash`);
  return found ?? byDefault;
}

function readTerms(text: string, { labelKeys }: BalanceOptions, problems: string[]): readonly WeightTerm[] | undefined {
  const { terms, problem } = readWeightTerms(text, labelKeys);
  if (problem !== undefined) {
    problems.push(`annotation ${OWN_ANNOTATIONS.weights}: ${problem}; all endpoints have the same weight`);
  }
  return terms;
}

/** The endpoints of a service port. */
interface BalancedEndpoints {
  /** Those that each policy uses. */
  readonly used: { readonly cluster: readonly string[]; readonly local: readonly string[] };
  readonly known: readonly ServiceEndpoint[];
  readonly protocol: Protocol;
  readonly namespace: string;
  readonly labels: EndpointLabels;
  /** The factors of their weights with counted connections, by target; undefined if none differs from 1. */
  readonly factors: ReadonlyMap<string, number> | undefined;
}

/** The loads that change the weights of endpoints with counted connections. */
export interface Weighing {
  /** The factors of the configured weights of a service port's endpoints, by target; undefined if none differs from 1. */
  factors(port: ServicePortKey): ReadonlyMap<string, number> | undefined;
  /** The open connections of an endpoint, by target; undefined if they are not counted. */
  open(target: string): number | undefined;
}

/** One object for each algorithm and hash, so that ten thousand services share it. */
const plain = new Map<string, Balance>();

/** Decides how a service port is balanced; undefined for the mode's default with equal weights. */
export function planBalance(
  { algorithm, hash, terms }: BalanceRequest,
  endpoints: BalancedEndpoints,
  { modeDefault, countsConnections }: Pick<BalanceOptions, "modeDefault" | "countsConnections">,
): Balance | undefined {
  const { used, known, factors, protocol, namespace, labels } = endpoints;
  const byTarget = terms &&
    new Map(known.map(({ target, endpoint }) => [target, weightOf(endpoint, namespace, terms, labels)]));
  const clusterWeights = byTarget && weightsOf(used.cluster, byTarget);
  const localWeights = byTarget && weightsOf(used.local, byTarget);
  const counts = algorithm === "least-connections" && countsConnections === true;
  const most = Math.max(used.cluster.length, used.local.length);
  const isFeasible = balanceObstacle(algorithm, protocol, most, { modeDefault, countsConnections }) === undefined;
  const isWeighted = clusterWeights !== undefined || localWeights !== undefined;
  const effective = (isFeasible ? algorithm : undefined) ?? (isWeighted ? modeDefault : undefined);
  if (effective === undefined) return undefined;
  const shared = plainBalance(effective, effective === "consistent-hash" ? hash : undefined);
  const weights = { ...clusterWeights && { clusterWeights }, ...localWeights && { localWeights } };
  if (!counts || !isFeasible) return isWeighted ? { ...shared, ...weights } : shared;
  const slots = (endpoints: readonly string[], weights: readonly number[] | undefined) =>
    endpoints.length === 0 ? undefined : countedSlots({ endpoints, weights }, factors);
  const clusterSlots = slots(used.cluster, clusterWeights), localSlots = slots(used.local, localWeights);
  return { ...shared, ...weights, ...clusterSlots && { clusterSlots }, ...localSlots && { localSlots } };
}

/** Why a service port of this protocol and size cannot have an algorithm of the mode; undefined if it can. */
export function balanceObstacle(
  algorithm: BalanceAlgorithm | undefined,
  protocol: Protocol,
  endpoints: number,
  { modeDefault, countsConnections }: Pick<BalanceOptions, "modeDefault" | "countsConnections">,
): string | undefined {
  const instead = balancedBy(modeDefault);
  if (algorithm === "least-connections" && countsConnections === true && protocol !== "tcp") {
    return `${algorithm} counts connections of TCP, not of ${protocol.toUpperCase()}; ${instead}`;
  }
  const most = algorithm === "consistent-hash"
    ? MOST_CONSISTENT_HASH_ENDPOINTS
    : algorithm === "least-connections" && countsConnections === true
    ? MOST_COUNTED_ENDPOINTS
    : Infinity;
  return endpoints > most ? `${algorithm} takes up to ${most} endpoints, not ${endpoints}; ${instead}` : undefined;
}

function plainBalance(algorithm: BalanceAlgorithm, hash: BalanceHash | undefined): Balance {
  const key = `${algorithm} ${hash ?? ""}`;
  let found = plain.get(key);
  if (found === undefined) {
    found = Object.freeze(hash === undefined ? { algorithm } : { algorithm, hash });
    plain.set(key, found);
  }
  return found;
}

/** The weights of a list; undefined if they are equal. If all are 0, the endpoints still serve, with equal shares. */
function weightsOf(targets: readonly string[], byTarget: ReadonlyMap<string, number>): readonly number[] | undefined {
  const weights = targets.map((target) => byTarget.get(target)!);
  return weights.every((weight) => weight === weights[0]) ? undefined : weights;
}
