import {
  COUNT,
  FINITE,
  HOST_PORT,
  ifValid,
  list,
  mapOf,
  NOTHING,
  orUndefined,
  record,
  type Shape,
  TEXT,
  type TypeOf,
} from "../../platform/shapes/mod.ts";
import type { ServicePortKey } from "./service_port.ts";
import { TRAFFIC_READING, type TrafficReading } from "./traffic.ts";

/** A call that a family's worker answers, even during a sync, as its caller knows it: plain data in both directions. */
export interface WorkerCall<Request, Answer> {
  readonly name: string;
  /** Its requests, safe in the arguments and the input of tools; the worker checks them. */
  readonly request: Shape<Request>;
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
const RULE_PART = record({ place: TEXT, lines: list(TEXT) });

/** See `RULE_PART`. */
export type RulePart = TypeOf<typeof RULE_PART>;

/** The part of the kernel's state that belongs to one service port, as the tools write it. */
const RULE_DESCRIPTION = record({
  parts: list(RULE_PART),
  /** The reason why the kernel refused it; undefined if it did not. */
  problem: orUndefined(TEXT),
});

/** See `RULE_DESCRIPTION`. */
export type RuleDescription = TypeOf<typeof RULE_DESCRIPTION>;

/** Describes the kernel objects of a service port. */
export const describeRules: WorkerCall<ServicePortKey, RuleDescription> = {
  name: "describeRules",
  request: TEXT,
  checked: ifValid(RULE_DESCRIPTION),
};

/**
 * Counts of packets that matched rules of one family. A count restarts when its rule is rewritten. kube-proxy counts the same
 * packets with nfacct.
 */
const PACKET_COUNTS = record({
  /** Packets dropped because conntrack classified them as INVALID. */
  ctStateInvalidDropped: COUNT,
  /** First packets of connections to a node port at a loopback address. */
  localhostNodePortsAccepted: COUNT,
});

/** See `PACKET_COUNTS`. */
export type PacketCounts = TypeOf<typeof PACKET_COUNTS>;

/** Reads the packet counters of the rules. */
export const readPacketCounts: WorkerCall<undefined, PacketCounts> = {
  name: "readPacketCounts",
  request: NOTHING,
  checked: ifValid(PACKET_COUNTS),
};

/** Reads the traffic since the last call; no answer while an earlier call is being answered. */
export const readTraffic: WorkerCall<undefined, TrafficReading> = {
  name: "readTraffic",
  request: NOTHING,
  checked(answer) {
    if (!TRAFFIC_READING.is(answer)) return undefined;
    const rows = answer.ports.length;
    return answer.endpoints.length === rows && answer.counts.length === 3 * rows ? answer : undefined;
  },
  // The counts of a late reading would be lost.
  timeoutMs: 120_000,
};

/** A dead endpoint, and the frontends through which its connections are reset. */
export const GONE_ENDPOINT = record({ endpoint: HOST_PORT, frontends: list(HOST_PORT) });

/** See `GONE_ENDPOINT`. */
export type GoneEndpoint = TypeOf<typeof GONE_ENDPOINT>;

const ATTEMPTS = record({
  /** The SYN packets sent to it, repetitions included. */
  made: COUNT,
  /** The SYN-ACK packets that came back. */
  answered: COUNT,
});

/** The connection attempts of one endpoint since the kernel began to count. */
export type Attempts = TypeOf<typeof ATTEMPTS>;

/** The connection attempts of TCP endpoints, by `address:port`. Endpoints without attempts for half a minute are absent. */
export const ATTEMPT_COUNTS = mapOf(ATTEMPTS);

/** See `ATTEMPT_COUNTS`. */
export type AttemptCounts = TypeOf<typeof ATTEMPT_COUNTS>;

const ENDPOINT_CONNECTIONS = record({
  /** Those that are open: answered, and neither end has closed or reset them. */
  open: COUNT,
  /** Those that were opened since the kernel began to count. */
  opened: COUNT,
});

/** The connections of one TCP endpoint, from all services of this node. */
export type EndpointConnections = TypeOf<typeof ENDPOINT_CONNECTIONS>;

/** The connections of the endpoints of service ports whose connections are counted. */
export const CONNECTION_READING = record({
  /** By `address:port`; undefined if nothing has changed since the last reading. */
  endpoints: orUndefined(mapOf(ENDPOINT_CONNECTIONS)),
  /** The duration of the reading in milliseconds. */
  durationMs: FINITE,
});

/** See `CONNECTION_READING`. */
export type ConnectionReading = TypeOf<typeof CONNECTION_READING>;
