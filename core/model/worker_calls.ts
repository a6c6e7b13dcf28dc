import * as shape from "../../platform/shapes/mod.ts";
import type { ServicePortKey } from "./service_port.ts";
import { TRAFFIC_READING, type TrafficReading } from "./traffic.ts";

/** A call that a family's worker answers, even during a sync, as its caller knows it: plain data in both directions. */
export interface WorkerCall<Request, Answer> {
  readonly name: string;
  /** Its requests, safe in the arguments and the input of tools; the worker checks them. */
  readonly request: shape.Shape<Request>;
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

/** One place in the kernel with the lines of a service port: `nat KUBE-SVC-…` with rules, `map services` with elements. */
const RULE_PART = shape.record({ place: shape.TEXT, lines: shape.list(shape.TEXT) });

/** See `RULE_PART`. */
export type RulePart = shape.TypeOf<typeof RULE_PART>;

/** The part of the kernel's state that belongs to one service port, as the tools write it. */
const RULE_DESCRIPTION = shape.record({
  parts: shape.list(RULE_PART),
  /** The reason why the kernel refused it; undefined if it did not. */
  problem: shape.orUndefined(shape.TEXT),
});

/** See `RULE_DESCRIPTION`. */
export type RuleDescription = shape.TypeOf<typeof RULE_DESCRIPTION>;

/** Describes the kernel objects of a service port. */
export const describeRules: WorkerCall<ServicePortKey, RuleDescription> = {
  name: "describeRules",
  request: shape.TEXT,
  checked: shape.ifValid(RULE_DESCRIPTION),
};

/** Packets that matched rules of one family, as kube-proxy counts with nfacct; restarts when its rule is rewritten. */
const PACKET_COUNTS = shape.record({
  /** Packets dropped because conntrack classified them as INVALID. */
  ctStateInvalidDropped: shape.COUNT,
  /** First packets of connections to a node port at a loopback address. */
  localhostNodePortsAccepted: shape.COUNT,
});

/** See `PACKET_COUNTS`. */
export type PacketCounts = shape.TypeOf<typeof PACKET_COUNTS>;

/** Reads the packet counters of the rules. */
export const readPacketCounts: WorkerCall<undefined, PacketCounts> = {
  name: "readPacketCounts",
  request: shape.NOTHING,
  checked: shape.ifValid(PACKET_COUNTS),
};

/** Reads the traffic since the last call; no answer while an earlier call is being answered. */
export const readTraffic: WorkerCall<undefined, TrafficReading> = {
  name: "readTraffic",
  request: shape.NOTHING,
  checked(answer) {
    if (!TRAFFIC_READING.is(answer)) return undefined;
    const rows = answer.ports.length;
    return answer.endpoints.length === rows && answer.counts.length === 3 * rows ? answer : undefined;
  },
  // The counts of a late reading would be lost.
  timeoutMs: 120_000,
};

/** A dead endpoint, and the frontends through which its connections are reset. */
export const GONE_ENDPOINT = shape.record({
  namespace: shape.TEXT,
  endpoint: shape.HOST_PORT,
  frontends: shape.list(shape.HOST_PORT),
});

/** For how long the connections of a dead endpoint are reset, in milliseconds, even if the proxy is killed. */
export const RESET_LIFETIME_MS = 300_000;

/** See `GONE_ENDPOINT`. */
export type GoneEndpoint = shape.TypeOf<typeof GONE_ENDPOINT>;

const ATTEMPTS = shape.record({
  /** The SYN packets sent to it, repetitions included. */
  made: shape.COUNT,
  /** The SYN-ACK packets that came back. */
  answered: shape.COUNT,
});

/** The connection attempts of one endpoint since the kernel began to count. */
export type Attempts = shape.TypeOf<typeof ATTEMPTS>;

/** The connection attempts of TCP endpoints, by `address:port`. Endpoints without attempts for half a minute are absent. */
export const ATTEMPT_COUNTS = shape.mapOf(ATTEMPTS);

/** See `ATTEMPT_COUNTS`. */
export type AttemptCounts = shape.TypeOf<typeof ATTEMPT_COUNTS>;

const ENDPOINT_CONNECTIONS = shape.record({
  /** Those that are open: answered, and neither end has closed or reset them. */
  open: shape.COUNT,
  /** Those that were opened since the kernel began to count. */
  opened: shape.COUNT,
});

/** The connections of one TCP endpoint, from all services of this node. */
export type EndpointConnections = shape.TypeOf<typeof ENDPOINT_CONNECTIONS>;

/** The connections of the endpoints of service ports whose connections are counted. */
export const CONNECTION_READING = shape.record({
  /** By `address:port`; undefined if nothing has changed since the last reading. */
  endpoints: shape.orUndefined(shape.mapOf(ENDPOINT_CONNECTIONS)),
  /** The duration of the reading in milliseconds. */
  durationMs: shape.FINITE,
});

/** See `CONNECTION_READING`. */
export type ConnectionReading = shape.TypeOf<typeof CONNECTION_READING>;
