import type { Effect } from "../core/channel/mod.ts";
import type { FrontendKind, ProxyMode, RuleDescription } from "../core/model/mod.ts";
import type { EndpointFate, TopologyMode } from "../core/planning/mod.ts";
import type { EndpointShares } from "./balance.ts";
import type { RulesOrigin } from "./basis.ts";
import type { Outcome } from "./outcome.ts";
import type { Question } from "./question.ts";

/** The fate of new connections to a destination, and the reasons for it, as plain data. */
export interface Explanation {
  readonly destination: Omit<Question, "from">;
  readonly mode: ProxyMode;
  readonly node: { readonly name: string; readonly zone: string; readonly address: string };
  /** Undefined if no service has this address and port. */
  readonly service: ExplainedService | undefined;
  /** One for each source in the question. */
  readonly outcomes: readonly Outcome[];
  /** Further notes for the reader, one sentence each. */
  readonly remarks: readonly string[];
}

/** The service port that has a destination as its frontend. */
export interface ExplainedService {
  /** `namespace/name:port`. */
  readonly name: string;
  readonly type: string;
  readonly frontend: FrontendKind;
  /** `cluster IP 10.0.0.1:80/TCP`. */
  readonly frontendText: string;
  readonly policies: readonly ExplainedPolicy[];
  readonly topology: TopologyMode;
  readonly endpoints: readonly ExplainedEndpoint[];
  readonly rules: ExplainedRules | undefined;
}

/** A setting of the service or of the proxy, and its effect. */
export interface ExplainedPolicy {
  /** The field's name in the API or in the configuration. */
  readonly name: string;
  readonly value: string;
  readonly effect: string;
}

/** An endpoint of a service port, and whether each traffic policy uses it. */
export interface ExplainedEndpoint {
  /** `address:port`. */
  readonly target: string;
  /** Empty if its slice names none. */
  readonly node: string;
  readonly zone: string;
  readonly onThisNode: boolean;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  /** Whether new connections to this destination may reach it, under either policy. */
  readonly used: boolean;
  readonly cluster: EndpointFate;
  readonly local: EndpointFate;
  /** Its shares of new connections; absent with the default of the mode, where all are equal. */
  readonly shares?: EndpointShares;
  /** The reason why it is used or not, in a few words. */
  readonly reason: string;
}

/** The rules of a service port in the kernel. */
export interface ExplainedRules extends RuleDescription {
  readonly from: RulesOrigin;
  readonly since: Effect | undefined;
}

/** Where an endpoint runs: `this node (zone-a)`. */
export function placeText({ node, zone, onThisNode }: ExplainedEndpoint): string {
  const where = onThisNode ? "this node" : node === "" ? "no node" : node;
  return zone === "" ? where : `${where} (${zone})`;
}

/** Since when rules are in effect, or why they are not. */
export function sinceText({ from, since }: ExplainedRules): string {
  if (from === "rendering" || since === undefined) return "as a proxy would write them";
  if (since.state === "refused") return `not in effect: the kernel refuses them: ${since.refusal}`;
  if (since.state === "waiting") return "pending; the sync that writes them has not finished";
  if (since.syncedAtMs === undefined) return "in effect";
  const at = new Date(since.syncedAtMs).toISOString();
  return `in effect since the sync of revision ${since.revision}${since.orEarlier ? " or an earlier one" : ""}, ${at}`;
}
