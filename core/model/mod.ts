/**
 * Defines the data that travels from the planner to the workers: plain objects per IP family, with every decision taken.
 * Addresses are canonical strings (see platform/address.ts), endpoints are `address:port` strings.
 *
 *   service_port.ts      one port of one Service, with every decision taken, and its size in the kernel
 *   endpoint_edits.ts    the difference between two versions of a service port that differ in endpoints only
 *   frontend.ts          the addresses and ports of a service port, with the verdict of each
 *   balance.ts           how connections are spread over the endpoints, and the share of each
 *   slot_table.ts        tables of consistent hashing and of weights
 *   family_settings.ts   the settings of all services of a family
 *   delta.ts             the changes since a revision, or a full snapshot, and the ports of the relay that they need
 *   sync_report.ts       the result and the counts of a sync
 *   traffic.ts           counts of traffic since the previous reading
 *   worker_start.ts      the start of a family's worker
 *   worker_calls.ts      calls to a family's worker, and those that every proxy uses
 *
 * In: nothing. Out: types, and functions that read them. May touch: nothing.
 */
export type { Family } from "../../platform/mod.ts";
export {
  type Balance,
  BALANCE_ALGORITHMS,
  BALANCE_HASHES,
  type BalanceAlgorithm,
  type BalanceHash,
  balanceShares,
  balanceTable,
  countedSlots,
  IPVS_SCHEDULERS,
  isCounted,
  MAX_WEIGHT,
  MOST_CONSISTENT_HASH_ENDPOINTS,
  MOST_COUNTED_ENDPOINTS,
} from "./balance.ts";
export {
  differsInEndpointsOnly,
  editsSize,
  ENDPOINT_EDITS,
  type EndpointEdits,
  endpointEdits,
  withEdits,
} from "./endpoint_edits.ts";
export { type EndpointIndex, hashOf } from "./slot_table.ts";
export {
  completesState,
  FAMILY_DELTA,
  type FamilyDelta,
  type PortRange,
  type RelayPlaces,
  relayPortsOf,
  withRelayPlaces,
} from "./delta.ts";
export {
  DUMMY_INTERFACE,
  type FamilySettings,
  type IpvsSettings,
  type LocalTraffic,
  type ProxyMode,
} from "./family_settings.ts";
export {
  balancedList,
  endpointsIn,
  INTERNAL_PORT,
  kernelSize,
  type LoadBalancerSources,
  namespaceOf,
  PROTOCOL,
  type Protocol,
  type RelayPorts,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
  type ServicePortName,
  sharesSlots,
  type Verdict,
} from "./service_port.ts";
export {
  type CountedTraffic,
  type CountsOfPorts,
  FAILURE_REASONS,
  type FailureReason,
  type ServiceTraffic,
  TRAFFIC_KINDS,
  type TrafficCounts,
  type TrafficCoverage,
  type TrafficFailure,
  type TrafficKind,
  type TrafficReading,
  WHOLE_TRAFFIC,
} from "./traffic.ts";
export {
  type ComparisonCause,
  isCommonFigure,
  refusedPorts,
  type SyncFigures,
  type SyncProblem,
  type SyncReport,
} from "./sync_report.ts";
export {
  ATTEMPT_COUNTS,
  type AttemptCounts,
  type Attempts,
  type CallWorker,
  CONNECTION_READING,
  type ConnectionReading,
  describeRules,
  type EndpointConnections,
  GONE_ENDPOINT,
  type GoneEndpoint,
  type PacketCounts,
  readPacketCounts,
  readTraffic,
  RESET_LIFETIME_MS,
  type RuleDescription,
  type RulePart,
  type WorkerCall,
} from "./worker_calls.ts";
export {
  admittedSources,
  type Frontend,
  type FrontendKind,
  frontendsOf,
  hasExternalFrontends,
  isFrontendAt,
  isPolicyLocal,
  nodePortOf,
} from "./frontend.ts";
export { type KernelSetting, WORKER_START, type WorkerStart } from "./worker_start.ts";
