/**
 * The sets and maps of the table, each declared once. The desired state, comparisons, `diff`, `explain` and the reading of counters
 * follow from the declarations.
 */
import type { FailureReason, FamilySettings, Protocol } from "../../core/model/mod.ts";
import { CLIENT_HASHES } from "./hashes.ts";
import type { Dialect } from "./table.ts";

/** A set or map. */
export interface SetDeclaration {
  readonly kind?: "map";
  /** The lines between its braces in an IPv4 table, as nft prints and accepts them. */
  readonly lines: readonly string[];
  /** The owner of an element: one service port by default, several of a shared set, or the rules that add it. */
  readonly elements?: "shared" | "rules";
  /** The setting that asks for it; every table has the others. */
  readonly setting?: keyof CounterSettings;
  /** Whether its keys are frontends: together, such sets have the frontends of all services. */
  readonly hasFrontends?: true;
  /** The failures that it counts. */
  readonly failures?: FailureReason;
  /** Notes an element of a listing. By default, all are noted as they are, except those that rules add. */
  readonly note?: (elements: Map<string, string>, element: string) => void;
}

/** The settings that ask for sets. */
type CounterSettings = Pick<FamilySettings, "countTraffic" | "countsAttempts">;

/** An expression with the type of a number of 32 bits. */
const NUMBER = "numgen random mod 65536";

/**
 * The maximum number of elements of a set that was declared without a size, once a rule with `update` refers to it; nft then
 * lists it as the set's size (nft_dynset_init in the kernel). Never declare this size: the kernel would allocate a hash table
 * for as many elements at once, 2 MB, while the table of a set without a declared size grows with its elements.
 */
export const DEFAULT_SET_SIZE = 65_535;

const FRONTEND = "typeof ip daddr . meta l4proto . th dport";
// nft 1.0.6 crashes if it derives the type of these keys from their expressions.
const PAIR = "type ipv4_addr . inet_proto . inet_service . ipv4_addr . inet_service";
// Further clients are not remembered, further pairs not counted. Linux takes the lower 16 bits of a size, which are 0 here, for the
// hash table that it allocates at once, so an empty set takes no memory.
const CLIENT_SIZE = `size ${2 ** 24}`, PAIR_SIZE = `size ${2 ** 17}`;
const DYNAMIC = "flags dynamic,timeout";
/** Much longer than the time between two readings, so that no count expires unread. */
const COUNTED = ["counter", "timeout 10m"];

const verdicts = { kind: "map", lines: [`${FRONTEND} : verdict`] } as const;
const frontends = { lines: [FRONTEND], hasFrontends: true } as const;
// nft 1.0.6 accepts the port of a DNAT only from a map whose type names the protocol.
const endpointsOf = (protocol: Protocol) =>
  ({ kind: "map", lines: [`typeof ip daddr . ${protocol} dport . ${NUMBER} : ip daddr . ${protocol} dport`] }) as const;
const traffic = { elements: "rules", setting: "countTraffic" } as const;
const pairs = { ...traffic, lines: ["type mark", PAIR_SIZE, DYNAMIC, ...COUNTED] };
const failed = { ...traffic, lines: [FRONTEND, DYNAMIC, ...COUNTED] };

/** The sets and maps by name. */
const SETS = {
  /** Frontend → the chain that serves it. */
  services: { ...verdicts, hasFrontends: true },
  /** Frontend of policy Local → the chain that serves this node's own traffic to it. */
  shortcuts: verdicts,
  /** Frontends that reject, and frontends that drop. */
  refused: frontends,
  dropped: frontends,
  /** Frontend open to some sources, or node port that refuses some destinations → the chain that checks them. */
  restricted: { ...verdicts, hasFrontends: true },
  /** Frontend and range that admits sources to it (see sources.ts). nft cannot store the type of so many fields as expressions. */
  sources: { lines: ["type ipv4_addr . inet_proto . inet_service . ipv4_addr . mark"] },
  /** The clients of services with session affinity (see affinity.ts). Rules give each its timeout, which a Service may change. */
  clients: { lines: [`typeof ${NUMBER} . ${NUMBER}`, CLIENT_SIZE, DYNAMIC], elements: "rules", note: noteClient },
  "cluster-ips": { lines: ["typeof ip daddr"], elements: "shared" },
  /** An endpoint's address, twice: traffic from an endpoint to itself. */
  hairpins: { lines: ["typeof ip saddr . ip daddr"], elements: "shared" },
  /** Frontend and number → endpoint. The same for this node's own traffic to frontends of policy Local. */
  "tcp-endpoints": endpointsOf("tcp"),
  "tcp-shortcut-endpoints": endpointsOf("tcp"),
  "udp-endpoints": endpointsOf("udp"),
  "udp-shortcut-endpoints": endpointsOf("udp"),
  "sctp-endpoints": endpointsOf("sctp"),
  "sctp-shortcut-endpoints": endpointsOf("sctp"),
  /** Hash of frontend and endpoint, for each connection, and for each packet of both directions (see counters.ts). */
  "count-connections": pairs,
  "count-packets": pairs,
  /** Frontend and endpoint of each connection to another address than a cluster IP; most pairs pause for less than an hour. */
  "count-pairs": { ...traffic, lines: [PAIR, PAIR_SIZE, DYNAMIC, "timeout 1h"] },
  /** Frontends, for packets that are rejected or dropped, by reason. */
  "count-rejected": { ...failed, failures: "no-endpoints" },
  "count-dropped": { ...failed, failures: "traffic-policy" },
  "count-outside": { ...failed, failures: "source-range" },
  /** Frontend and endpoint, for repeated first packets of TCP connections. */
  "count-unanswered": { ...traffic, lines: [PAIR, PAIR_SIZE, DYNAMIC, ...COUNTED], failures: "unanswered" },
  /** Endpoints and directions, for connection attempts and their answers (see counters.ts). */
  "count-attempts": {
    lines: ["typeof ip daddr . tcp dport . ct direction", DYNAMIC, "counter", "timeout 30s"],
    elements: "rules",
    setting: "countsAttempts",
  },
} as const satisfies Readonly<Record<string, SetDeclaration>>;

/** The name of the set of a list of source ranges. */
export type SourceListName = `sources-${string}`;

/** The name of the map with the slots that the external frontends of a service port share. */
export type OutsideMapName = `outside-${string}`;

/** The name of the map with the endpoints of a block of numbers, of service ports with session affinity (see affinity_names.ts). */
export type EndpointMapName = `endpoints-${Protocol}-${number}-${number}`;

/** The name of a set or map. */
export type SetName = keyof typeof SETS | SourceListName | OutsideMapName | EndpointMapName;

const DECLARATIONS: ReadonlyMap<string, SetDeclaration> = new Map<string, SetDeclaration>(Object.entries(SETS));

/** Whether a set of this name belongs to a list of sources. */
function isSourceList(name: string): name is SourceListName {
  return name.startsWith("sources-");
}

/** Whether service ports share the set or map of this name, which is not fixed. */
export function isSharedSet(name: string): name is SourceListName | EndpointMapName {
  return isSourceList(name) || ENDPOINT_MAP.test(name);
}

const ENDPOINT_MAP = /^endpoints-(tcp|udp|sctp)-/;

/** The declaration of a set or map by its name. Those that are neither fixed nor shared have the slots of service ports. */
export function declarationOf(name: string): SetDeclaration {
  const protocol = ENDPOINT_MAP.exec(name)?.[1] as Protocol | undefined;
  if (protocol !== undefined) return endpointsOf(protocol);
  return DECLARATIONS.get(name) ?? (isSourceList(name) ? SOURCE_LIST : outsideMap("tcp"));
}

/** The set of a list of sources, which service ports may share. */
const SOURCE_LIST: SetDeclaration = { lines: ["type ipv4_addr . mark"], elements: "shared" };

/** The map of a service port with the slots of its external frontends. nft 1.1.7 reverses the bytes of a number that is a whole key. */
export function outsideMap(protocol: Protocol): SetDeclaration {
  return { kind: "map", lines: [`typeof ${protocol} dport . ${NUMBER} : ip daddr . ${protocol} dport`] };
}

/** The kind of a set or map with this name. */
export function kindOfSet(name: string): "set" | "map" {
  return declarationOf(name).kind ?? "set";
}

/** A declaration as text: the kind, and the lines between its braces. */
export function setText({ kind, lines }: SetDeclaration, { ip }: Dialect): string {
  const text = [kind ?? "set", ...lines].join("\n");
  return ip === "ip" ? text : text.replace(/\bip\b/g, ip).replaceAll("ipv4_addr", "ipv6_addr");
}

/** The declarations of all sets that every table has or the settings ask for, as text by name. */
export function declaredSets(settings: CounterSettings, dialect: Dialect): ReadonlyMap<SetName, string> {
  return new Map(
    [...DECLARATIONS].filter(([, { setting }]) => setting === undefined || settings[setting])
      .map(([name, declaration]) => [name as SetName, setText(declaration, dialect)]),
  );
}

/** The fixed sets and maps with this property. */
export function setsWith(property: "hasFrontends" | "failures"): readonly SetName[] {
  return [...DECLARATIONS].filter(([, declaration]) => declaration[property]).map(([name]) => name as SetName);
}

/** Notes a client: adds the number of its endpoint to those of its service port. */
function noteClient(numbers: Map<string, string>, element: string): void {
  const [, service, rest] = /^(\d+) \. (\d+)/.exec(element) ?? [];
  if (service === undefined) return;
  const number = String(Math.floor(Number(rest) / CLIENT_HASHES)), known = numbers.get(service);
  if (known === undefined) numbers.set(service, number);
  else if (!known.split(" ").includes(number)) numbers.set(service, `${known} ${number}`);
}
