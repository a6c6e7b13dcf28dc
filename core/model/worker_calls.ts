import type { ServicePortKey } from "./service_port.ts";
import type { TrafficReading } from "./traffic.ts";

/** The calls that a family's worker answers, even during a sync: plain data in both directions. */
export interface WorkerCalls {
  /** Describes the kernel objects of a service port. */
  readonly describe: { readonly request: ServicePortKey; readonly answer: RuleDescription };
  /** Reads the packet counters of the rules. */
  readonly packetCounts: { readonly request: undefined; readonly answer: PacketCounts };
  /** Reads the traffic since the last call; no answer while an earlier call is being answered. */
  readonly traffic: { readonly request: undefined; readonly answer: TrafficReading };
  /** Reads the counted connection attempts. */
  readonly attempts: { readonly request: undefined; readonly answer: AttemptCounts };
  /** Examines the kernel for reasons why packets may not flow. */
  readonly examine: { readonly request: PathExamination; readonly answer: readonly PathFinding[] };
  /** Looks for rules of other programs that drop packets to or from these addresses. */
  readonly rulesInTheWay: { readonly request: ServedAddresses; readonly answer: readonly RuleInTheWay[] };
  /** Notifies the service manager; no answer if that fails. */
  readonly notify: { readonly request: ServiceNotification; readonly answer: true };
}

/** A notification of the service manager (sd_notify(3)). Plain data. */
export interface ServiceNotification {
  /** The value of `NOTIFY_SOCKET`: a path, or `@` and a name in the abstract namespace. */
  readonly socket: string;
  /** The state in words: one line. */
  readonly status: string;
  /** Whether the start is complete. */
  readonly ready: boolean;
}

/** Whether a value of `NOTIFY_SOCKET` is a unix socket; in a virtual machine it may be one of the host (`vsock:`). */
export function isNotifySocket(value: unknown): value is string {
  return typeof value === "string" && /^[@/]\P{Cc}{1,107}$/u.test(value);
}

/** The name of a call. */
export type CallName = keyof WorkerCalls;

/** Calls a worker. Resolves with undefined if it does not answer in time, or if its mode has no answer. */
export type CallWorker = <Name extends CallName>(
  name: Name,
  request: WorkerCalls[Name]["request"],
) => Promise<WorkerCalls[Name]["answer"] | undefined>;

/**
 * The reasons why packets of services may not flow that this node's kernel shows:
 * - `forwarding-off`: the kernel forwards no packets of the family;
 * - `table-full`: the connection tracking table is full, so new connections are dropped;
 * - `foreign-chain`: a chain of another program drops packets;
 * - `rp-filter`: reverse path filtering is strict, which drops packets on asymmetric routes.
 */
export const PATH_CAUSES = ["forwarding-off", "table-full", "foreign-chain", "rp-filter"] as const;

/** One of `PATH_CAUSES`. */
export type PathCause = typeof PATH_CAUSES[number];

/** Something in the kernel that may stop packets of services. Plain data. */
export interface PathFinding {
  readonly cause: PathCause;
  /** The details in a sentence without its full stop. */
  readonly detail: string;
  /** Whether it stops the pods' packets in any case; otherwise it is only a suspect once packets stop. */
  readonly certain: boolean;
}

/** What rules of other programs are compared with: the addresses and ports of services and of this node's pods. Plain data. */
export interface ServedAddresses {
  /** Canonical prefixes of one family. */
  readonly prefixes: readonly string[];
  /** The ports of services and endpoints at these addresses. */
  readonly ports: readonly number[];
  readonly nodePorts: readonly number[];
}

/** A rule of another program that drops packets to or from served addresses. Plain data. */
export interface RuleInTheWay {
  /** Table, chain and rule, in a sentence without its full stop. */
  readonly detail: string;
  /** The packets that it has dropped; undefined if it does not count them. */
  readonly packets: number | undefined;
}

/**
 * How much to examine: `settings` reads the kernel settings that are certain to stop packets, which takes milliseconds;
 * `everything` also lists the chains of other programs.
 */
export type PathExamination = "settings" | "everything";

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

/** The connection attempts of TCP endpoints, by `address:port`. Endpoints without attempts for half a minute are absent. */
export type AttemptCounts = ReadonlyMap<string, Attempts>;
