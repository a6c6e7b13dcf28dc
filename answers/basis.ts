import type { ModeDescription } from "../backends/contract/mod.ts";
import type { Effect } from "../core/channel/mod.ts";
import type { CountsOfPorts, FamilySettings, RelayPlaces, RuleDescription, ServicePortKey } from "../core/model/mod.ts";
import type { BalanceOptions, FamilyPlanner, PlannedPort } from "../core/planning/mod.ts";
import type { Tracking } from "../core/tracking/mod.ts";
import type { Family } from "../platform/mod.ts";

/** Whether rules are those of a running proxy, or those that a proxy would write. */
export type RulesOrigin = "running proxy" | "rendering";

/** The data behind answers about one family. */
export interface FamilyBasis {
  readonly planner: Pick<FamilyPlanner, "ports" | "portsOf" | "limitOf" | "openConnections">;
  settings(): FamilySettings;
  /** The revision last sent to the worker; 0 if none was sent or no proxy runs. */
  revision(): number;
  /** The rules of a service port in the kernel; undefined if unknown. */
  rules(key: ServicePortKey): Promise<RuleDescription | undefined>;
  /** Where the relay listens, if the rules need one. */
  relayPlaces?(): RelayPlaces | undefined;
  /** The time at which the current plan of a service port took effect; undefined if no proxy runs. */
  since(port: PlannedPort): Effect | undefined;
}

/** The data behind answers, from a running proxy or from a source that was read once. */
export interface AnswerBasis {
  readonly nodeName: string;
  readonly mode: ModeDescription;
  readonly tracking: Tracking;
  readonly families: Readonly<Record<Family, FamilyBasis>>;
  readonly balance: BalanceOptions;
  /** Whether `families` return the rules of a running proxy, or the rules that a proxy would write. */
  readonly rulesFrom: RulesOrigin;
  /** The counted traffic; absent if traffic metrics are off, or no proxy runs. */
  readonly traffic?: Pick<CountsOfPorts, "ofPort" | "ofEndpoint">;
  /** This host's own addresses, canonical, in addition to those in the Node object. */
  hostAddresses(): readonly string[];
}
