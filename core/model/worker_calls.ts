import { ifValid, isCount, isText, list, oneOf, optional, record, type TypeCheck } from "../../platform/checks/mod.ts";
import type { ServicePortKey } from "./service_port.ts";
import { FAILURE_REASONS, type TrafficFailure, type TrafficReading } from "./traffic.ts";

/** A call that a family's worker answers, even during a sync, as its caller knows it: plain data in both directions. */
export interface WorkerCall<Request, Answer> {
  readonly name: string;
  /** Whether a request is safe in the arguments and the input of tools; the worker checks it. */
  readonly isRequest: TypeCheck<Request>;
  /** Sanitizes an answer; undefined if it is unusable. */
  readonly checked: (answer: unknown) => Answer | undefined;
  /** The timeout of the answer in milliseconds, if it takes longer than others. */
  readonly timeoutMs?: number;
}

/** Calls a worker. Resolves with undefined if it does not answer in time, or if its mode has no answer. */
export type CallWorker = <Request, Answer>(
  call: WorkerCall<Request, Answer>,
  request: NoInfer<Request>,
) => Promise<Answer | undefined>;

/** Whether a call has no request. */
export const isNothing: TypeCheck<undefined> = oneOf(undefined);

/** A dead endpoint, and the frontends through which its connections are reset; each is `address:port`. */
export interface GoneEndpoint {
  readonly endpoint: string;
  readonly frontends: readonly string[];
}

/** Describes the kernel objects of a service port. */
export const describeRules: WorkerCall<ServicePortKey, RuleDescription> = {
  name: "describeRules",
  isRequest: isText,
  checked: ifValid(record<RuleDescription>({
    parts: list(record<RulePart>({ place: isText, lines: list(isText) })),
    problem: optional(isText),
  })),
};

/** Reads the packet counters of the rules. */
export const readPacketCounts: WorkerCall<undefined, PacketCounts> = {
  name: "readPacketCounts",
  isRequest: isNothing,
  checked: ifValid(record<PacketCounts>({ ctStateInvalidDropped: isCount, localhostNodePortsAccepted: isCount })),
};

const isReading = record<TrafficReading>({
  durationMs: Number.isFinite,
  ports: list(isText),
  endpoints: list(isText),
  counts: (counts) => counts instanceof Float64Array && counts.every((count) => count >= 0 && count < Infinity),
  failures: list(record<TrafficFailure>({ port: isText, reason: oneOf(...FAILURE_REASONS), packets: isCount })),
});

/** Reads the traffic since the last call; no answer while an earlier call is being answered. */
export const readTraffic: WorkerCall<undefined, TrafficReading> = {
  name: "readTraffic",
  isRequest: isNothing,
  checked(answer) {
    if (!isReading(answer)) return undefined;
    const rows = answer.ports.length;
    return answer.endpoints.length === rows && answer.counts.length === 3 * rows ? answer : undefined;
  },
  // The counts of a late reading would be lost.
  timeoutMs: 120_000,
};

/**
 * Counts of packets that matched rules of one family. A count restarts when its rule is rewritten. kube-proxy counts the same
 * packets with nfacct.
 */
export interface PacketCounts {
  /** Packets dropped because conntrack classified them as INVALID. */
  readonly ctStateInvalidDropped: number;
  /** First packets of connections to a node port at a loopback address. */
  readonly localhostNodePortsAccepted: number;
}

/** The part of the kernel's state that belongs to one service port, as the tools write it. */
export interface RuleDescription {
  /** Each place with its lines: `nat KUBE-SVC-…` with rules, `map services` with elements. */
  readonly parts: readonly RulePart[];
  /** The reason why the kernel refused it; undefined if it did not. */
  readonly problem: string | undefined;
}

/** One place in the kernel with the lines of a service port. */
export interface RulePart {
  readonly place: string;
  readonly lines: readonly string[];
}

/** The connection attempts of one endpoint since the kernel began to count. */
export interface Attempts {
  /** The SYN packets sent to it, repetitions included. */
  readonly made: number;
  /** The SYN-ACK packets that came back. */
  readonly answered: number;
}

/** The connections of one TCP endpoint, from all services of this node. */
export interface EndpointConnections {
  /** Those that are open: answered, and neither end has closed or reset them. */
  readonly open: number;
  /** Those that were opened since the kernel began to count. */
  readonly opened: number;
}

/** The connections of the endpoints of service ports whose connections are counted. */
export interface ConnectionReading {
  /** By `address:port`; undefined if nothing has changed since the last reading. */
  readonly endpoints: ReadonlyMap<string, EndpointConnections> | undefined;
  /** The duration of the reading in milliseconds. */
  readonly durationMs: number;
}

/** The connection attempts of TCP endpoints, by `address:port`. Endpoints without attempts for half a minute are absent. */
export type AttemptCounts = ReadonlyMap<string, Attempts>;
