/** Checks the messages to a family's worker: one passes only if it is safe in a tool's arguments and input. */
import {
  type Balance,
  BALANCE_ALGORITHMS,
  BALANCE_HASHES,
  type FamilyDelta,
  type FamilySettings,
  IPVS_SCHEDULERS,
  type IpvsSettings,
  type LoadBalancerSources,
  type LocalTraffic,
  MAX_WEIGHT,
  type Protocol,
  type RelayPorts,
  type ServicePort,
  type Verdict,
} from "../core/model/mod.ts";
import type { ModeDescription } from "../backends/contract/mod.ts";
import { MODE_DESCRIPTIONS } from "../backends/mod.ts";
import { isWritten, type Sysctl } from "../backends/host/mod.ts";
import { FAMILIES } from "../platform/mod.ts";
import {
  type Check,
  type Fields,
  integer,
  isBoolean,
  isCount,
  isHostPort,
  isPort,
  isPortNumber,
  isPrefix,
  list,
  oneOf,
  optional,
  record,
  text,
  wrongField,
} from "../platform/checks/mod.ts";
import { CALLS } from "./calls.ts";
import type { ToWorker } from "./protocol.ts";

/** The characters of an IP address. The tools refuse such a text if it is not an address. */
const ADDRESS = /^[\da-f.:]{2,45}$/;
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

const PROTOCOLS: readonly Protocol[] = ["tcp", "udp", "sctp"];
const VERDICTS: readonly Verdict[] = ["cluster", "local", "reject", "drop"];

const isAddress = text(ADDRESS);
const isProtocol = oneOf(...PROTOCOLS), isVerdict = oneOf(...VERDICTS);
const isPortNumberOrNone = integer(0, 65_535);
const isSeconds = integer(0, 2 ** 31 - 1);

const isWeights = optional(list(integer(0, MAX_WEIGHT)));
const isBalance = record<Balance>({
  algorithm: oneOf(...BALANCE_ALGORITHMS, ...IPVS_SCHEDULERS),
  hash: optional(oneOf(...BALANCE_HASHES)),
  clusterWeights: isWeights,
  localWeights: isWeights,
  clusterSlots: isWeights,
  localSlots: isWeights,
});

const SERVICE_PORT: Fields<ServicePort> = {
  name: text(SERVICE_PORT_NAME),
  protocol: isProtocol,
  clusterIP: isAddress,
  port: isPortNumber,
  externalIPs: list(isAddress),
  loadBalancerIPs: list(isAddress),
  nodePort: isPortNumberOrNone,
  nodePortPrefixes: optional(list(isPrefix)),
  healthCheckNodePort: isPortNumberOrNone,
  internal: isVerdict,
  external: isVerdict,
  clusterEndpoints: list(isHostPort),
  localEndpoints: list(isHostPort),
  endpointsOnThisNode: list(isHostPort),
  lingeringEndpoints: list(isHostPort),
  unreachableEndpoints: optional(list(isHostPort)),
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
  serviceRanges: list(isPrefix),
  // Deno's timers take 31 bits of milliseconds; longer periods are clipped when the timer is set.
  syncPeriodMs: (value) => typeof value === "number" && value > 0,
  countTraffic: optional(oneOf(true)),
  ipvs: optional(isIpvs),
  relayAddress: optional(isAddress),
};

const isSysctl: Check = (value) =>
  record<Sysctl>({
    name: text(/./),
    value: isCount,
    atLeast: optional(oneOf(true)),
    mayFail: optional(oneOf(true)),
  })(value) && isWritten(value as Sysctl);

const type: Check = () => true;

type MessageChecks = { readonly [Type in ToWorker["type"]]: Fields<Extract<ToWorker, { type: Type }>> };

function messageChecks(modes: readonly ModeDescription[]): MessageChecks {
  const isMode = oneOf(...modes.map(({ name }) => name));
  const isDelta = record<FamilyDelta>({
    revision: isCount,
    base: optional(isCount),
    settings: optional(record<FamilySettings>({ ...SETTINGS, mode: isMode })),
    set: list(record(SERVICE_PORT)),
    deleted: list(text(SERVICE_PORT_KEY)),
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
    call: { type, number: isCount, name: oneOf(...CALLS.keys()), request: () => true },
    compare: { type },
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
    const checked = message as ToWorker;
    if (checked.type === "call" && !CALLS.get(checked.name)?.isRequest(checked.request)) {
      throw new Error(`message refused: invalid request of call ${checked.name}`);
    }
    if (checked.type === "sync") checked.delta.set.forEach(shareWords);
    return checked;
  };
}

/** Replaces a message's own copies of the same words, which take 70 bytes of each service port, by one for all. */
function shareWords(port: { -readonly [Field in keyof ServicePort]: ServicePort[Field] }): void {
  const shared = <T>(words: readonly T[], word: T) => words[words.indexOf(word)]!;
  port.protocol = shared(PROTOCOLS, port.protocol);
  port.internal = shared(VERDICTS, port.internal);
  port.external = shared(VERDICTS, port.external);
}

/** Checks a message of this product's modes (see `createMessageCheck`). */
export const checkedMessage = createMessageCheck(MODE_DESCRIPTIONS);
