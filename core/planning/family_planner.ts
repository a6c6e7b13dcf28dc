import type { Problem, ReportProblems } from "../problems/mod.ts";
import { type Family, type ServicePort, type ServicePortKey, servicePortKey } from "../model/mod.ts";
import type { Service } from "../objects/mod.ts";
import { sameData } from "../../platform/mod.ts";
import type { ServiceKey, TrackedChanges, Tracking } from "../tracking/mod.ts";
import { balanceObstacle, type BalanceOptions, balanceRequest, type Weighing } from "./balance.ts";
import {
  type BalanceBudget,
  type BalanceLimit,
  createBalanceBudget,
  NAMESPACE_BUDGET,
  SERVICE_BUDGET,
  tableSize,
} from "./balance_budget.ts";
import type { NodeContext } from "./endpoints.ts";
import {
  type Claimant,
  createFrontendClaims,
  type FrontendClaims,
  sameFrontends,
  type Settlement,
} from "./frontend_claims.ts";
import { INTERNAL_SERVICE, internalPort, type InternalService } from "./internal_service.ts";
import { planService } from "./service_port.ts";
import { usesLabels } from "./weight_terms.ts";

/** The changes in the plan of a family. */
export interface PlanChanges {
  readonly set: ReadonlyMap<ServicePortKey, ServicePort>;
  readonly deleted: readonly ServicePortKey[];
  /** The previous plans of the changed service ports that had one. */
  readonly replaced: ReadonlyMap<ServicePortKey, ServicePort>;
}

/** The number of service ports with traffic policy Local that have usable endpoints, but none on this node. */
export interface NoLocalEndpoints {
  readonly internal: number;
  readonly external: number;
}

/** A service port and its plan. */
export interface PlannedPort extends Claimant {
  readonly service: ServiceKey;
  /** Undefined if it lost its cluster IP to another service port. */
  readonly planned: ServicePort | undefined;
  /** The frontends that it lost, one sentence each. */
  readonly reported: readonly string[];
  /** The call of `plan`, counted from 1, that planned this. */
  readonly plannedIn: number;
}

/** Plans the service ports of one family. */
export interface FamilyPlanner {
  /**
   * Returns how the plan differs from the last one. The first call plans every tracked service; later calls plan those that
   * changed, or every service if this node's zone or address changed.
   */
  plan(changes: TrackedChanges): PlanChanges;
  /** Plans these services alone: before the first `plan`, or after a change of `unreachable` or `weighing`. */
  planSome(services: Iterable<ServiceKey>): PlanChanges;
  /** Plans the internal service, or removes it; there is none initially. */
  planInternal(internal: InternalService | undefined): PlanChanges;
  /** Whether any service of the cluster has a service port in this family. */
  hasServices(): boolean;
  /** Iterates over all service ports as of the last call of `plan`, the internal one's included. */
  ports(): Iterable<PlannedPort>;
  /** Returns the service ports of one service. */
  portsOf(service: ServiceKey): readonly PlannedPort[];
  /** Returns why a service is not balanced as its annotations or the configuration request; undefined if it is not. */
  limitOf(service: ServiceKey): string | undefined;
  /** Returns the open connections of an endpoint, by target; undefined if they are not counted. */
  openConnections(target: string): number | undefined;
  /** Returns the number of calls of `plan`. */
  rounds(): number;
  /** For the metric `sync_proxy_rules_no_local_endpoints_total`; service ports, as kube-proxy counts them. */
  noLocalEndpoints(): NoLocalEndpoints;
}

interface FamilyPlannerOptions {
  readonly family: Family;
  readonly nodeName: string;
  readonly tracking: Tracking;
  /** How services can be balanced; undefined for the mode's default in every case. */
  readonly balance?: BalanceOptions;
  /** The TCP endpoints that do not answer this node, read at every plan; none by default. */
  readonly unreachable?: () => ReadonlySet<string>;
  /** The loads that change the weights of endpoints with counted connections, read at every plan; none by default. */
  readonly weighing?: () => Weighing | undefined;
  /** Receives the frontends that a service port claimed and lost to another; each service port is a scope. */
  readonly onProblems: ReportProblems;
  /** Called when a service is balanced at random because of its size, for its Event. */
  readonly onLimit?: (service: ServiceKey, problem: Problem) => void;
}

type Entry = { -readonly [Field in keyof PlannedPort]: PlannedPort[Field] } & {
  /** Whether its service still has this port. */
  exists: boolean;
};

const NOTHING: readonly string[] = Object.freeze([]);

interface PlannerState {
  readonly options: FamilyPlannerOptions;
  readonly entries: Map<ServiceKey, readonly Entry[]>;
  readonly claims: FrontendClaims<Entry>;
  readonly dropping: { internal: number; external: number };
  readonly budget: BalanceBudget;
  /** The services that are not balanced as requested, and why. */
  readonly limited: Map<ServiceKey, Unbalanced>;
  internal: InternalService | undefined;
  rounds: number;
}

/** Creates a planner with an empty plan. */
export function createFamilyPlanner(options: FamilyPlannerOptions): FamilyPlanner {
  const { family, tracking } = options;
  const state: PlannerState = {
    options,
    entries: new Map(),
    claims: createFrontendClaims(),
    dropping: { internal: 0, external: 0 },
    budget: createBalanceBudget(),
    limited: new Map(),
    internal: undefined,
    rounds: 0,
  };
  const { entries } = state;
  let plannedZone: string | undefined, plannedNodeIP: string | undefined;

  const changedServices = ({ services, endpoints, labels }: TrackedChanges): Iterable<ServiceKey> =>
    new Set([...services, ...endpoints[family].services, ...(labels ? weightedByLabels(tracking) : [])]);

  return {
    plan(changes) {
      const { zone, nodeIPs: { [family]: nodeIP } } = tracking.node.state();
      const everything = zone !== plannedZone || nodeIP !== plannedNodeIP;
      plannedZone = zone;
      plannedNodeIP = nodeIP;
      const all = () => new Set([...entries.keys(), ...tracking.services.keys()]);
      return planServices(state, everything ? all() : changedServices(changes), zone);
    },
    planSome: (services) => planServices(state, services, tracking.node.state().zone),
    planInternal(internal) {
      state.internal = internal;
      return planServices(state, [INTERNAL_SERVICE], tracking.node.state().zone);
    },
    hasServices: () => entries.size > (entries.has(INTERNAL_SERVICE) ? 1 : 0),
    limitOf: (service) => state.limited.get(service)?.detail,
    *ports() {
      for (const some of entries.values()) yield* some;
    },
    portsOf: (service) => entries.get(service) ?? [],
    openConnections: (target) => options.weighing?.()?.open(target),
    rounds: () => state.rounds,
    noLocalEndpoints: () => ({ ...state.dropping }),
  };
}

/** The services whose weights may depend on labels. */
function* weightedByLabels({ services }: Tracking): Generator<ServiceKey> {
  for (const key of services.keys()) if (usesLabels(services.get(key)?.own?.weights ?? "")) yield key;
}

function planServices(state: PlannerState, services: Iterable<ServiceKey>, zone: string): PlanChanges {
  state.rounds++;
  const node = { name: state.options.nodeName, zone };
  const affected = new Set<Entry>();
  for (const service of services) update(state, service, node, affected);
  for (const service of state.budget.settle()) update(state, service, node, affected);
  const set = new Map<ServicePortKey, ServicePort>();
  const deleted: ServicePortKey[] = [];
  const replaced = new Map<ServicePortKey, ServicePort>();
  for (const entry of affected) {
    const port = settle(state, entry);
    if (sameData(entry.planned, port)) continue;
    if (entry.planned !== undefined) replaced.set(entry.key, entry.planned);
    entry.planned = port;
    entry.plannedIn = state.rounds;
    if (port === undefined) deleted.push(entry.key);
    else set.set(entry.key, port);
  }
  return { set, deleted, replaced };
}

/** Updates the entries of a service and adds every entry whose plan may change to `affected`. */
function update(state: PlannerState, service: ServiceKey, node: NodeContext, affected: Set<Entry>): void {
  const { entries } = state;
  const before = entries.get(service);
  const gone = before && new Map(before.map((entry) => [entry.key, entry]));
  const createdSeconds = state.options.tracking.services.get(service)?.createdSeconds;
  const current = portsWanted(state, service, node).map((wanted) => {
    const key = servicePortKey(wanted.name, wanted.protocol);
    const entry = gone?.get(key);
    gone?.delete(key);
    if (entry !== undefined) return change(state, entry, { wanted, createdSeconds }, affected);
    // One literal, since a copied object with more fields takes more memory.
    const added: Entry = {
      key,
      service,
      wanted,
      createdSeconds,
      planned: undefined,
      reported: NOTHING,
      plannedIn: 0,
      exists: true,
    };
    return add(state, added, affected);
  });
  for (const entry of gone?.values() ?? []) remove(state, entry, affected);
  if (current.length > 0) entries.set(service, current);
  else entries.delete(service);
}

function portsWanted(state: PlannerState, key: ServiceKey, node: NodeContext): ServicePort[] {
  const { options, internal, budget } = state;
  const { family, tracking, balance } = options;
  if (key === INTERNAL_SERVICE) return internal === undefined ? [] : [internalPort(internal)];
  const service = tracking.services.get(key);
  const ports = service === undefined ? [] : planService({
    family,
    node,
    nodeIP: tracking.node.state().nodeIPs[family],
    service,
    balance,
    labels: tracking.labels,
    endpointsOf: (portName, protocol) => tracking.endpoints[family].endpointsOf(key, portName, protocol),
    unreachable: options.unreachable?.(),
    weighing: options.weighing?.(),
  });
  if (balance === undefined) return ports;
  if (balance.tablesAreInKernel) budget.request(key, ports, service?.createdSeconds);
  const limit = budget.limitOf(key);
  const obstacle = limit === undefined ? obstacleOf(service, ports, balance) : limitProblem(limit, family, ports);
  reportLimit(state, key, obstacle);
  return limit === undefined ? ports : ports.map(({ balance: _, ...port }) => port);
}

/** Why a service is not balanced as requested. */
type Unbalanced = Pick<Problem, "code" | "detail">;

/** The first port that cannot be balanced as its service requests; undefined if there is none. */
function obstacleOf(
  service: Service | undefined,
  ports: readonly ServicePort[],
  balance: BalanceOptions,
): Unbalanced | undefined {
  if (service?.own?.balance === undefined) return undefined;
  const { algorithm } = balanceRequest(service, balance);
  for (const { protocol, clusterEndpoints, localEndpoints } of ports) {
    const most = Math.max(clusterEndpoints.length, localEndpoints.length);
    const detail = balanceObstacle(algorithm, protocol, most, balance);
    if (detail !== undefined) return { code: "balance-ignored", detail };
  }
  return undefined;
}

function limitProblem(limit: BalanceLimit, family: Family, ports: readonly ServicePort[]): Unbalanced {
  const most = limit === "service" ? SERVICE_BUDGET : NAMESPACE_BUDGET;
  const whose = limit === "service" ? "a service" : "the services of a namespace";
  const size = tableSize(ports);
  const detail = `its table would have ${size} elements in ${family}; ${whose} may have ${most}; balanced at random`;
  return { code: "balance-limited", detail };
}

function reportLimit(
  { options: { family, onProblems, onLimit }, limited }: PlannerState,
  key: ServiceKey,
  unbalanced: Unbalanced | undefined,
): void {
  // The sizes in a limit's detail change with the endpoints; the first one stays.
  if (unbalanced === undefined ? !limited.delete(key) : limited.get(key)?.code === unbalanced.code) return;
  if (unbalanced !== undefined) limited.set(key, unbalanced);
  const problems: Problem[] = unbalanced === undefined ? [] : [{ ...unbalanced, subject: key }];
  onProblems(`balance of ${key} (${family})`, problems);
  for (const problem of problems) onLimit?.(key, problem);
}

function add({ claims, dropping }: PlannerState, entry: Entry, affected: Set<Entry>): Entry {
  count(dropping, entry.wanted, 1);
  affected.add(entry);
  for (const rival of claims.claim(entry)) affected.add(rival);
  return entry;
}

function change(
  { claims, dropping }: PlannerState,
  entry: Entry,
  { wanted, createdSeconds }: Pick<Entry, "wanted" | "createdSeconds">,
  affected: Set<Entry>,
): Entry {
  const hasSameAge = entry.createdSeconds === createdSeconds;
  if (hasSameAge && sameData(entry.wanted, wanted)) return entry;
  count(dropping, entry.wanted, -1);
  count(dropping, wanted, 1);
  affected.add(entry);
  if (hasSameAge && sameFrontends(entry.wanted, wanted)) {
    entry.wanted = wanted;
    return entry;
  }
  for (const rival of claims.release(entry)) affected.add(rival);
  entry.wanted = wanted;
  entry.createdSeconds = createdSeconds;
  for (const rival of claims.claim(entry)) affected.add(rival);
  return entry;
}

function remove({ options, claims, dropping }: PlannerState, entry: Entry, affected: Set<Entry>): void {
  count(dropping, entry.wanted, -1);
  entry.exists = false;
  reportConflicts(options, entry, NOTHING);
  affected.add(entry);
  for (const rival of claims.release(entry)) affected.add(rival);
}

function count(dropping: PlannerState["dropping"], port: ServicePort, step: 1 | -1): void {
  if (port.internal === "drop") dropping.internal += step;
  if (port.external === "drop") dropping.external += step;
}

function settle({ options, claims }: PlannerState, entry: Entry): ServicePort | undefined {
  if (!entry.exists) return undefined;
  const settlement = claims.settle(entry);
  reportConflicts(options, entry, conflictsOf(entry, settlement));
  return settlement.port;
}

/** A Service may claim thousands of addresses of others. */
const MOST_CONFLICTS_NAMED = 10;

function conflictsOf(entry: Entry, { port, lost }: Settlement<Entry>): readonly string[] {
  const consequence = port === undefined ? "it is not served" : "it is served without it";
  const sentences = lost.slice(0, MOST_CONFLICTS_NAMED).map(({ frontend, winner }) =>
    `${entry.key} claims ${frontend}, which belongs to ${winner.key}; ${consequence} until that service port releases it`
  );
  const more = lost.length - sentences.length;
  return more === 0 ? sentences : [...sentences, `so do ${more} more of its frontends`];
}

function reportConflicts(options: FamilyPlannerOptions, entry: Entry, messages: readonly string[]): void {
  if (messages.length === 0 && entry.reported.length === 0) return;
  entry.reported = messages.length === 0 ? NOTHING : messages;
  const subject = `${entry.key} (${options.family})`, detail = messages.join("; ");
  options.onProblems(`frontends of ${subject}`, detail === "" ? [] : [{ code: "frontend-conflict", subject, detail }]);
}
