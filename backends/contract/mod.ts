/**
 * The interface that every backend implements, and the shape of a mode's description.
 *
 * In: deltas. Out: results of syncs. May touch: nothing; it holds types, and the life of a traffic reader.
 */
export {
  type Backend,
  type BackendOptions,
  createReaderOnDemand,
  type HostQuestion,
  NOTHING_DONE,
  soonest,
  type SyncResult,
  type TrafficReader,
  UnsupportedHostError,
} from "./backend.ts";
export { type DepartureQuestion, type DepartureSettings, type Difference } from "./departure.ts";
export {
  CONNECTIONS_RESET,
  type FigureDeclarations,
  type FigureMetric,
  IPTABLES_VARIANT_TOOLS,
  type ModeDescription,
  type ModeRelay,
  type ModeSection,
  type ModeTraffic,
  type RuleTraffic,
} from "./mode.ts";
