/**
 * Defines the data that travels from the planner to the workers: plain objects per IP family, with every decision taken.
 * Addresses are canonical strings (see platform/address.ts), endpoints are `address:port` strings.
 *
 *   service_port.ts      one port of one Service, with every decision taken
 *   balance.ts           how connections are spread over the endpoints, and the share of each
 *   slot_table.ts        tables of consistent hashing and of weights
 *   frontend.ts          the frontends of a service port, with their verdicts and admitted sources
 *   family_settings.ts   the settings of all services of a family
 *   delta.ts             the changes since a revision, or a full snapshot
 *   relay_ports.ts       where the relay of userspace mode listens
 *   sync_report.ts       the result and the figures of a sync
 *   traffic.ts           counts of traffic since the previous reading
 *   rule_description.ts  the rules of one service port, and packet counts
 *   attempt_counts.ts    connection attempts of endpoints, and their answers
 *   path_finding.ts      the reasons why packets may not flow
 *
 * In: nothing. Out: types, and functions that read them. May touch: nothing.
 */
export type { AttemptCounts, Attempts } from "./attempt_counts.ts";
export type { Family } from "../../platform/mod.ts";
export {
  type Balance,
  BALANCE_ALGORITHMS,
  BALANCE_HASHES,
  type BalanceAlgorithm,
  type BalancedList,
  type BalanceHash,
  balanceShares,
  balanceTable,
  IPVS_SCHEDULERS,
  MAX_WEIGHT,
  MOST_MAGLEV_ENDPOINTS,
} from "./balance.ts";
export type { EndpointIndex } from "./slot_table.ts";
export { completesState, type FamilyDelta } from "./delta.ts";
export {
  DUMMY_INTERFACE,
  type FamilySettings,
  type IpvsSettings,
  type LocalTraffic,
  type ProxyMode,
} from "./family_settings.ts";
export {
  admittedSources,
  type Frontend,
  type FrontendKind,
  frontendsOf,
  hasExternalFrontends,
  isPolicyLocal,
} from "./frontend.ts";
export { PATH_CAUSES, type PathCause, type PathExamination, type PathFinding } from "./path_finding.ts";
export type { PacketCounts, RuleDescription, RulePart } from "./rule_description.ts";
export { type RelayPlaces, type RelayPorts, relayPortsOf, withRelayPlaces } from "./relay_ports.ts";
export {
  type LoadBalancerSources,
  type Protocol,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
  type ServicePortName,
  type Verdict,
} from "./service_port.ts";
export {
  FAILURE_REASONS,
  type FailureReason,
  TRAFFIC_KINDS,
  type TrafficCoverage,
  type TrafficFailure,
  type TrafficKind,
  type TrafficReading,
  WHOLE_TRAFFIC,
} from "./traffic.ts";
export {
  type CommonFigures,
  type ComparisonCause,
  isCommonFigure,
  type RefusedPort,
  refusedPorts,
  type SyncFigures,
  type SyncProblem,
  type SyncReport,
} from "./sync_report.ts";
