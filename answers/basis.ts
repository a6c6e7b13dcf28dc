import { type Family, isLoopback } from "../platform/mod.ts";
import type { FamilySettings, RuleDescription, ServicePortKey } from "../core/model/mod.ts";
import { ownAddresses } from "../observe/mod.ts";
import type { FamilyPlanner, PlannedPort } from "../core/planning/mod.ts";
import type { Tracking } from "../core/tracking/mod.ts";
import type { Effect } from "../core/channel/mod.ts";
import type { ExplainedRules } from "./explanation.ts";

/** What questions about one family are answered from. */
export interface FamilyBasis {
  readonly planner: Pick<FamilyPlanner, "ports" | "portsOf">;
  settings(): FamilySettings;
  /** The revision that was last sent to the worker; 0 where nothing was, or where nothing runs. */
  revision(): number;
  /** What carries a service port in the kernel; undefined where nobody can tell. */
  rules(key: ServicePortKey): Promise<RuleDescription | undefined>;
  /** Since when what is planned of a service port is in effect; undefined where nothing runs. */
  since(port: PlannedPort): Effect | undefined;
}

/** What questions are answered from: what a proxy, running or not, knows. */
export interface AnswerBasis {
  readonly nodeName: string;
  readonly tracking: Tracking;
  readonly families: Readonly<Record<Family, FamilyBasis>>;
  /** Whether the rules that `families` tell of are those of a running proxy, or what one would write. */
  readonly rulesFrom: ExplainedRules["from"];
  /** This host's own addresses, canonical; those that the Node object names count beside them. */
  hostAddresses(): readonly string[];
}

/** The addresses of this host's interfaces, canonical, loopback aside. */
export function addressesOfHost(): readonly string[] {
  return ownAddresses().filter((address) => !isLoopback(address));
}
