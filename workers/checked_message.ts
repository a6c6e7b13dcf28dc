/**
 * Checks the messages between the isolates. A message to a worker passes only if it is safe in a tool's arguments and
 * input. A report from a worker may only contain problem codes of the table, because they become labels of metrics.
 */
import { isProblemCode, type Problem } from "../core/problems/mod.ts";
import {
  type Balance,
  BALANCE_ALGORITHMS,
  FAILURE_REASONS,
  type FamilyDelta,
  type FamilySettings,
  IPVS_SCHEDULERS,
  type IpvsSettings,
  isCommonFigure,
  type LoadBalancerSources,
  type LocalTraffic,
  MAX_WEIGHT,
  PATH_CAUSES,
  type PathFinding,
  type RelayPorts,
  type ServicePort,
  type SyncReport,
  type TrafficFailure,
  type TrafficReading,
} from "../core/model/mod.ts";
import type { ModeDescription } from "../backends/contract/mod.ts";
import { MODE_DESCRIPTIONS } from "../backends/mod.ts";
import { isWritten, type Sysctl } from "../backends/host/mod.ts";
import { FAMILIES } from "../platform/mod.ts";
import type { ToWorker } from "./protocol.ts";

/** Whether a value is valid. */
type Check = (value: unknown) => boolean;

/**
 * The checks of the fields of an object, which may have no others. Every field of `T` has one, so that a new field of the
 * model cannot be forgotten here.
 */
type Fields<T> = { readonly [Name in keyof Required<T>]: Check };

const oneOf = (...values: readonly unknown[]): Check => (value) => values.includes(value);
const text = (pattern: RegExp): Check => (value) => typeof value === "string" && pattern.test(value);
const integer = (least: number, greatest: number): Check => (value) =>
  Number.isInteger(value) && (value as number) >= least && (value as number) <= greatest;
const optional = (check: Check): Check => (value) => value === undefined || check(value);
const list = (check: Check): Check => (value) => Array.isArray(value) && value.every(check);
const isBoolean: Check = (value) => typeof value === "boolean";
const isPort: Check = (value) => value instanceof MessagePort;

/** The name of the first invalid field; undefined if all are valid. */
function wrongField<T>(fields: Fields<T>, value: unknown): string | undefined {
  if (typeof value !== "object" || value === null) return "(not an object)";
  const given = value as Readonly<Record<string, unknown>>;
  for (const name in given) if (!Object.hasOwn(fields, name)) return `${quoted(name)} (unknown)`;
  for (const name in fields) if (!fields[name](given[name])) return quoted(name);
  return undefined;
}

const record = <T>(fields: Fields<T>): Check => (value) => wrongField(fields, value) === undefined;

/** Quotes a name, shortened so that an attacker cannot fill the log with it. */
function quoted(name: string): string {
  return JSON.stringify(name.slice(0, 40));
}

/** The characters of an IP address. The tools refuse such a text if it is not an address. */
const ADDRESS = /^[\da-f.:]{2,45}$/;
const PREFIX = /^[\da-f.:]{2,45}\/\d{1,3}$/;
const ENDPOINT = /^(?:[\d.]{7,15}|\[[\da-f.:]{2,45}\]):\d{1,5}$/;
/** Names as the decoders accept them (core/objects/metadata.ts). */
const SERVICE_PORT_NAME = /^[A-Za-z\d][\w.-]{0,62}\/[A-Za-z\d][\w.-]{0,62}(?::[A-Za-z\d][\w.-]{0,62})?$/;
const SERVICE_PORT_KEY = /^[A-Za-z\d][\w.:/-]{0,200}\|(?:tcp|udp|sctp)$/;
/**
 * Linux permits more in an interface name (everything except spaces and slashes), but no such name is known to be in
 * use.
 */
const INTERFACE = /^[A-Za-z\d_][\w.:@-]{0,14}$/;
const SCHEDULER = /^[a-z\d_]{1,16}$/;
const SEARCH_PATH = /^[^\0\n]{0,65536}$/;

const isAddress = text(ADDRESS), isPrefix = text(PREFIX), isEndpoint = text(ENDPOINT);
const isProtocol = oneOf("tcp", "udp", "sctp");
const isVerdict = oneOf("cluster", "local", "reject", "drop");
const isPortNumber = integer(1, 65_535), isPortNumberOrNone = integer(0, 65_535);
const isSeconds = integer(0, 2 ** 31 - 1), isCount = integer(0, Number.MAX_SAFE_INTEGER);

const isWeights = optional(list(integer(0, MAX_WEIGHT)));
const isBalance = record<Balance>({
  algorithm: oneOf(...BALANCE_ALGORITHMS, ...IPVS_SCHEDULERS),
  hash: optional(oneOf("flow", "client")),
  clusterWeights: isWeights,
  localWeights: isWeights,
});

const SERVICE_PORT: Fields<ServicePort> = {
  name: text(SERVICE_PORT_NAME),
  protocol: isProtocol,
  clusterIP: isAddress,
  port: isPortNumber,
  externalIPs: list(isAddress),
  loadBalancerIPs: list(isAddress),
  nodePort: isPortNumberOrNone,
  healthCheckNodePort: isPortNumberOrNone,
  internal: isVerdict,
  external: isVerdict,
  clusterEndpoints: list(isEndpoint),
  localEndpoints: list(isEndpoint),
  endpointsOnThisNode: list(isEndpoint),
  lingeringEndpoints: list(isEndpoint),
  unreachableEndpoints: optional(list(isEndpoint)),
  affinitySeconds: isSeconds,
  balance: optional(isBalance),
  loadBalancerSources: optional(record<LoadBalancerSources>({ ranges: list(isPrefix), includeNode: isBoolean })),
  relay: optional(record<RelayPorts>({ cluster: optional(isPortNumber), local: optional(isPortNumber) })),
};

const LOCAL_TRAFFIC: readonly Check[] = [
  record<LocalTraffic & { by: "none" }>({ by: oneOf("none") }),
  record<LocalTraffic & { by: "source-prefix" }>({ by: oneOf("source-prefix"), prefix: isPrefix }),
  record<LocalTraffic & { by: "bridge" }>({ by: oneOf("bridge"), interface: text(INTERFACE) }),
  record<LocalTraffic & { by: "interface-prefix" }>({ by: oneOf("interface-prefix"), prefix: text(INTERFACE) }),
];

const isIpvs = record<IpvsSettings>({
  scheduler: text(SCHEDULER),
  strictARP: isBoolean,
  excludePrefixes: list(isPrefix),
  timeoutSeconds: record<IpvsSettings["timeoutSeconds"]>({ tcp: isSeconds, tcpFin: isSeconds, udp: isSeconds }),
});

const SETTINGS: Fields<Omit<FamilySettings, "mode">> = {
  nodeIP: isAddress,
  localTraffic: (value) => LOCAL_TRAFFIC.some((check) => check(value)),
  masqueradeAll: isBoolean,
  masqueradeMark: oneOf(...Array.from({ length: 32 }, (_, bit) => 2 ** bit)),
  nodePortPrefixes: optional(list(isPrefix)),
  localhostNodePorts: isBoolean,
  conntrackTcpLiberal: isBoolean,
  countsAttempts: optional(oneOf(true)),
  resetsGone: optional(oneOf(true)),
  goneTimeoutMs: optional(isCount),
  serviceRanges: list(isPrefix),
  // Deno's timers take 31 bits of milliseconds; longer periods are clipped when the timer is set.
  syncPeriodMs: (value) => typeof value === "number" && value > 0,
  countTraffic: optional(oneOf(true)),
  ipvs: optional(isIpvs),
  relayAddress: optional(isAddress),
};

const isSysctl: Check = (value) =>
  record<Sysctl>({ name: text(/./), value: isCount, atLeast: optional(oneOf(true)) })(value) &&
  isWritten(value as Sysctl);

const type: Check = () => true;

/** The checks of each message. */
type MessageChecks = { readonly [Type in ToWorker["type"]]: Fields<Extract<ToWorker, { type: Type }>> };

function messageChecks(modes: readonly ModeDescription[]): MessageChecks {
  const isMode = oneOf(...modes.map(({ name }) => name));
  const isDelta = record<FamilyDelta>({
    revision: isCount,
    base: optional(isCount),
    settings: optional(record<FamilySettings>({ ...SETTINGS, mode: isMode })),
    set: list(record(SERVICE_PORT)),
    deleted: list(text(SERVICE_PORT_KEY)),
    gone: optional(list(isEndpoint)),
    part: optional(oneOf("head", "rest")),
  });
  return {
    role: { type, family: oneOf(...FAMILIES), path: text(SEARCH_PATH) },
    start: {
      type,
      family: oneOf(...FAMILIES),
      mode: isMode,
      ipvs: optional(isIpvs),
      logLevel: oneOf("trace", "debug", "info", "warn", "error"),
      logFormat: oneOf("text", "json"),
      kernel: list(isSysctl),
      kernelFirst: optional(oneOf(true)),
    },
    sync: { type, delta: isDelta },
    count: { type, number: isCount },
    attempts: { type, number: isCount },
    describe: { type, number: isCount, key: (value) => typeof value === "string" },
    "read-traffic": { type },
    compare: { type },
    examine: { type, number: isCount, what: oneOf("settings", "everything") },
    cleanup: { type },
    stop: { type, keepWorker: isBoolean },
    ping: { type },
    "use-port": { type, port: isPort },
    "start-sibling": { type, number: isCount, port: isPort },
    "end-sibling": { type },
  };
}

/**
 * Creates the check of messages to a worker: it returns a message that is valid in every field, and throws for any other
 * an error that names the invalid field.
 * @param modes the known modes
 */
export function createMessageCheck(modes: readonly ModeDescription[]): (message: unknown) => ToWorker {
  const checks = messageChecks(modes);
  return (message) => {
    const kind = (message as { readonly type?: unknown } | null)?.type;
    if (typeof kind !== "string" || !Object.hasOwn(checks, kind)) {
      throw new Error("message refused: unknown type");
    }
    const wrong = wrongField(checks[kind as ToWorker["type"]] as Fields<object>, message);
    if (wrong !== undefined) {
      throw new Error(`message refused: invalid field ${wrong} in a message of type ${kind}`);
    }
    return message as ToWorker;
  };
}

/** Checks a message of this product's modes (see `createMessageCheck`). */
export const checkedMessage = createMessageCheck(MODE_DESCRIPTIONS);

/** A reading of a worker, without rows that are not numbers, or that count less than nothing. */
export function checkedTraffic(reading: TrafficReading): TrafficReading | undefined {
  const { durationMs, ports, endpoints, counts, failures } = reading;
  const isText = (value: unknown) => typeof value === "string";
  const isValid = Number.isFinite(durationMs) && list(isText)(ports) && list(isText)(endpoints) &&
    counts instanceof Float64Array && counts.length === 3 * ports.length && endpoints.length === ports.length &&
    counts.every((count) => count >= 0 && count < Infinity) && list(isFailure)(failures);
  return isValid ? reading : undefined;
}

const isFailure = record<TrafficFailure>({
  port: (value) => typeof value === "string",
  reason: oneOf(...FAILURE_REASONS),
  packets: isCount,
});

/** The problems of a worker whose code is in the table. */
export function checkedProblems(problems: readonly Problem[]): readonly Problem[] {
  return problems.filter(({ code }) => isProblemCode(code));
}

/** The longest detail of a finding that is passed on. */
const LONGEST_DETAIL = 400;

/** The findings of a worker whose cause is known: causes become labels of metrics. */
export function checkedFindings(findings: readonly PathFinding[] | undefined): readonly PathFinding[] | undefined {
  return findings?.filter(({ cause }) => PATH_CAUSES.includes(cause)).map(({ cause, detail, certain }) => ({
    cause,
    detail: String(detail).slice(0, LONGEST_DETAIL),
    certain: certain === true,
  }));
}

/**
 * Sanitizes a report of a worker in this mode: a problem with an unknown code becomes `sync-failed`, and a figure that
 * is undeclared or not a finite number is dropped.
 */
export function checkedReport(report: SyncReport, mode: Pick<ModeDescription, "figures">): SyncReport {
  const problems = report.problems.map((problem) =>
    isProblemCode(problem.code) ? problem : { ...problem, code: "sync-failed" as const }
  );
  const isDeclared = (name: string) => isCommonFigure(name) || Object.hasOwn(mode.figures, name);
  const figures = Object.fromEntries(
    Object.entries(report.figures).filter(([name, value]) => isDeclared(name) && Number.isFinite(value)),
  );
  return { ...report, problems, figures };
}
