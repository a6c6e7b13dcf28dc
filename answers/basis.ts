import { type Family, isLoopback } from "../platform/mod.ts";
import type { ModeDescription } from "../backends/contract/mod.ts";
import type { FamilySettings, RelayPlaces, RuleDescription, ServicePortKey } from "../core/model/mod.ts";
import { ownAddresses } from "../observe/mod.ts";
import type { BalanceOptions, FamilyPlanner, PlannedPort } from "../core/planning/mod.ts";
import type { Tracking } from "../core/tracking/mod.ts";
import type { Effect } from "../core/channel/mod.ts";
import type { TrafficRecorder } from "../observe/traffic/mod.ts";
import type { ExplainedRules } from "./explanation.ts";

/** The data behind answers about one family. */
export interface FamilyBasis {
  readonly planner: Pick<FamilyPlanner, "ports" | "portsOf">;
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
  /** The mode of `families`. */
  readonly mode: ModeDescription;
  readonly tracking: Tracking;
  readonly families: Readonly<Record<Family, FamilyBasis>>;
  /** How services can be balanced. */
  readonly balance: BalanceOptions;
  /** Whether `families` return the rules of a running proxy, or those that one would write. */
  readonly rulesFrom: ExplainedRules["from"];
  /** The counted traffic; absent if traffic metrics are off, or no proxy runs. */
  readonly traffic?: Pick<TrafficRecorder, "ofPort" | "ofEndpoint">;
  /** This host's own addresses, canonical, in addition to those in the Node object. */
  hostAddresses(): readonly string[];
}

/** The addresses of this host's interfaces, canonical, without loopback addresses. */
export function addressesOfHost(): readonly string[] {
  return ownAddresses().filter((address) => !isLoopback(address));
}
