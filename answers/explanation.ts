import type { Effect } from "../core/channel/mod.ts";
import type { Family, Protocol, ProxyMode, RuleDescription } from "../core/model/mod.ts";
import type { EndpointFate, TopologyMode } from "../core/planning/mod.ts";
import type { FrontendKind } from "./frontend.ts";
import type { Way } from "./way.ts";

/** What becomes of new connections to a destination, and why: plain data. */
export interface Explanation {
  readonly destination: {
    readonly family: Family;
    readonly address: string;
    readonly port: number;
    readonly protocol: Protocol;
  };
  readonly mode: ProxyMode;
  readonly node: { readonly name: string; readonly zone: string; readonly address: string };
  /** The service port that the destination belongs to; undefined where it is of none. */
  readonly service: ExplainedService | undefined;
  /** What becomes of a connection, by where it comes from. */
  readonly ways: readonly Way[];
  /** What else a person should know, one sentence each. */
  readonly remarks: readonly string[];
}

/** The service port that is behind a destination. */
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

/** A setting of the service, or of the proxy, and what it does here. */
export interface ExplainedPolicy {
  /** By the name that the API or the configuration has for it. */
  readonly name: string;
  readonly value: string;
  readonly effect: string;
}

/** An endpoint of a service port, and what each policy makes of it. */
export interface ExplainedEndpoint {
  /** `address:port`. */
  readonly target: string;
  /** Empty where its slice does not say. */
  readonly node: string;
  readonly zone: string;
  readonly onThisNode: boolean;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  /** Whether new connections to this destination may get there, under whichever policy. */
  readonly used: boolean;
  readonly cluster: EndpointFate;
  readonly local: EndpointFate;
  /** Why it is used or not, in a few words. */
  readonly reason: string;
}

/** What carries a service port in the kernel. */
export interface ExplainedRules extends RuleDescription {
  /** Whether this is what the running proxy has brought to the kernel, or only what one would bring. */
  readonly from: "running proxy" | "rendering";
  readonly since: Effect | undefined;
}
