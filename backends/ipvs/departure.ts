/**
 * The differences on a node that leaves ipvs mode, as its virtual servers, sets and settings show. docs/ipvs.md explains
 * each difference.
 */
import { type BalanceAlgorithm, type BalanceHash, DUMMY_INTERFACE, type Family } from "../../core/model/mod.ts";
import { errorText, FAMILIES, plural, sameData } from "../../platform/mod.ts";
import type { DepartureQuestion, Difference, ModeDescription } from "../contract/mod.ts";
import { readSysctls } from "../host/mod.ts";
import { type Runner, ToolMissingError } from "../tools/mod.ts";
import { findLeftovers } from "./leftovers.ts";
import { NODE_PORT_SETS, type SetKind, setName } from "./sets.ts";
import { parseServerKey, readTimeouts, schedulerIn } from "./virtual_servers.ts";

/** The substitute for a scheduler in the other modes. */
interface Replacement {
  readonly algorithm: BalanceAlgorithm;
  readonly hash?: BalanceHash;
  /** How it differs; absent if it does the same. */
  readonly but?: string;
}

const LEAST_CONNECTIONS: Replacement = {
  algorithm: "least-connections",
  but: "counts of connections are followed within seconds, TCP only",
};

/** The replacements of the schedulers that have one. */
const REPLACEMENTS: Readonly<Record<string, Replacement>> = {
  rr: { algorithm: "round-robin" },
  wrr: { algorithm: "round-robin" },
  ...Object.fromEntries(["lc", "wlc", "sed", "nq", "lblcr", "twos"].map((scheduler) => [scheduler, LEAST_CONNECTIONS])),
  sh: { algorithm: "consistent-hash", hash: "client" },
  mh: { algorithm: "consistent-hash" },
};

/** The kernel's state of a family in ipvs mode. */
interface State {
  readonly family: Family;
  /** The definitions of the proxy's virtual servers: `-s rr -p 10800`. */
  readonly definitions: readonly string[];
  /** The number of virtual servers of other programs. */
  readonly others: number;
  /** The number of addresses of services on the dummy interface. */
  readonly bound: number;
  /** The addresses of this node at which node ports are served. */
  readonly nodePortAddresses: readonly string[];
  /** The number of addresses and node ports with traffic policy Local. */
  readonly local: number;
}

/** The differences on this node; never rejects. */
export async function differencesFrom(question: DepartureQuestion): Promise<readonly Difference[]> {
  const { runner, to } = question;
  try {
    const read = await Promise.all(FAMILIES.map((family) => stateOf(family, runner)));
    const states = read.filter((state) => state !== undefined);
    return [
      ...schedulers(states, question),
      ...addresses(states),
      ...nodePorts(states, question),
      ...localPolicy(states, to),
      ...affinity(states),
      ...await timeouts(runner),
      ...await strictARP(runner),
      ...others(states),
    ];
  } catch (error) {
    return [{ name: "ipvs state", ...unreadable(error) }];
  }
}

function unreadable(error: unknown): Omit<Difference, "name"> {
  const missing = error instanceof Error && error.cause instanceof ToolMissingError ? error.cause : undefined;
  if (missing === undefined) return { message: `cannot be read: ${errorText(error)}`, fix: "run sudo sluice check" };
  return {
    message: `cannot be read: ${missing.message}; without it, Sluice does not remove the state of ipvs mode either`,
    fix: "install ipvsadm and ipset until the node has left ipvs mode: run apt-get install ipvsadm ipset iproute2",
  };
}

async function stateOf(family: Family, runner: Runner): Promise<State | undefined> {
  const found = await findLeftovers({ family, runner });
  if (found === undefined) return undefined;
  const { own, others, bound, entries } = found;
  const addresses = [...own.keys()].map((key) => parseServerKey(key)!.address);
  const local = new Set(LOCAL_SETS.map((kind) => setName(kind, family)));
  return {
    family,
    definitions: [...own.values()].map(({ definition }) => definition),
    others,
    bound: bound.size,
    nodePortAddresses: [...new Set(addresses.filter((address) => !bound.has(address)))].sort(),
    local: [...entries.keys()].filter((entry) => local.has(entry.split(" ", 1)[0]!)).length,
  };
}

const LOCAL_SETS: readonly SetKind[] = [
  "externalIPLocal",
  "loadBalancerLocal",
  ...Object.values(NODE_PORT_SETS).map(({ local }) => local),
];

/** The sum of a count in both families. */
function total(states: readonly State[], count: "bound" | "others" | "local"): number {
  return states.reduce((sum, state) => sum + state[count], 0);
}

/** A difference, unless the number of things that it concerns is 0. */
function ifAny(count: number, difference: Difference): readonly Difference[] {
  return count === 0 ? [] : [difference];
}

function schedulers(states: readonly State[], { to, settings }: DepartureQuestion): readonly Difference[] {
  const definitions = states.flatMap(({ definitions }) => definitions.map((one) => one.replace(/ -p \d+/, "")));
  const used = [...Map.groupBy(definitions, (definition) => definition)].sort(([, a], [, b]) => b.length - a.length);
  return used.map(([definition, { length }]) => ({
    name: "ipvs scheduler",
    ...replaced(definition, `${schedulerIn(definition)} at ${plural(length, "virtual server")}`, to, settings),
  }));
}

function replaced(
  definition: string,
  used: string,
  { name, balance: { algorithms, byDefault } }: ModeDescription,
  { algorithm = byDefault, hash: configured }: DepartureQuestion["settings"],
): Omit<Difference, "name"> {
  const found = REPLACEMENTS[schedulerIn(definition)];
  const now = `${name} mode balances by ${algorithm}`;
  if (found === undefined) {
    return { message: `${used}: no algorithm does the same; ${now}`, fix: "choose what comes closest in docs/ipvs.md" };
  }
  if (!algorithms.includes(found.algorithm)) {
    const fix = `no action if ${algorithm} will do; otherwise use --proxy-mode nftables, which has ${found.algorithm}`;
    return { message: `${used}: ${now} and has no replacement`, fix };
  }
  const hash = found.algorithm === "consistent-hash" ? hashOf(definition, found) : undefined;
  const but = found.but === undefined ? "" : ` (${found.but})`;
  if (algorithm === found.algorithm && (hash === undefined || hash === configured)) {
    return { message: `${used}: ${now}${but}` };
  }
  const ofHash = hash === "client" ? " and balance.affinityHash: client" : "";
  return {
    message: `${used}: ${now}`,
    fix: `no action if that will do; otherwise set balance.algorithm: ${found.algorithm}${ofHash}${but}, ` +
      "or annotate single Services (docs/ipvs.md)",
  };
}

/** Without `mh-port`, the scheduler mh hashes the address of the client alone. */
function hashOf(definition: string, { hash }: Replacement): BalanceHash {
  return hash ?? (definition.includes("mh-port") ? "flow" : "client");
}

function addresses(states: readonly State[]): readonly Difference[] {
  const bound = total(states, "bound"), those = plural(bound, "address", "addresses");
  return ifAny(bound, {
    name: "ipvs addresses",
    message: `${those} of services on ${DUMMY_INTERFACE} will be addresses of no interface`,
    fix: `no action unless a program listens at one of them, or announces those of ${DUMMY_INTERFACE} to routers`,
  });
}

function nodePorts(
  states: readonly State[],
  { to, settings: { nodePortAddresses: configured } }: DepartureQuestion,
): readonly Difference[] {
  if (!configured.includes("primary") || configured.includes("all")) return [];
  return states.filter(({ nodePortAddresses }) => nodePortAddresses.length > 1).map((
    { family, nodePortAddresses },
  ) => ({
    name: "ipvs node ports",
    message:
      `served at ${nodePortAddresses.join(", ")}; ${to.name} mode serves them at this node's primary ${family} ` +
      "address, and at the prefixes in nodePortAddresses",
    fix: 'set nodePortAddresses: ["all"], or list the prefixes that clients use',
  }));
}

function localPolicy(states: readonly State[], { name }: ModeDescription): readonly Difference[] {
  const local = total(states, "local");
  return ifAny(local, {
    name: "ipvs policy Local",
    message:
      `${plural(local, "address or node port", "addresses and node ports")} with traffic policy Local: in ${name} ` +
      "mode, pods of this node reach all endpoints through them, and without an endpoint here packets are dropped, not rejected",
  });
}

function affinity(states: readonly State[]): readonly Difference[] {
  const persistent = states.flatMap(({ definitions }) => definitions).filter((text) => / -p \d/.test(text)).length;
  const those = plural(persistent, "virtual server");
  return ifAny(persistent, {
    name: "ipvs affinity",
    message: `${those} with session affinity: each client gets another endpoint once, then the ` +
      "same one at all addresses and the node port of a service",
    fix: "no action if clients may change their endpoint once; otherwise drain the node before the change",
  });
}

/** The kernel's own timeouts, in seconds. */
const DEFAULT_TIMEOUTS = { tcp: 900, tcpFin: 120, udp: 300 };

async function timeouts(runner: Runner): Promise<readonly Difference[]> {
  const found = await readTimeouts(runner), { tcp, tcpFin, udp } = found;
  if (sameData(found, DEFAULT_TIMEOUTS)) return [];
  return [{
    name: "ipvs timeouts",
    message:
      `idle connections end after ${tcp} s (TCP), ${tcpFin} s (TCP after FIN) and ${udp} s (UDP); in other modes, ` +
      "the timeouts of conntrack apply",
    fix:
      "set conntrack.tcpEstablishedTimeout, udpTimeout and udpStreamTimeout if idle connections must last, or end, as before",
  }];
}

async function strictARP(runner: Runner): Promise<readonly Difference[]> {
  const ignore = "net.ipv4.conf.all.arp_ignore", announce = "net.ipv4.conf.all.arp_announce";
  const values = await readSysctls(runner, [ignore, announce]);
  if (values.get(ignore) !== "1" || values.get(announce) !== "2") return [];
  return [{
    name: "ipvs strict ARP",
    message:
      "arp_ignore=1 and arp_announce=2 stay until the next boot; other modes do not need them, since no interface " +
      "has the addresses of services",
  }];
}

function others(states: readonly State[]): readonly Difference[] {
  const count = total(states, "others"), message = `${plural(count, "virtual server")} of other programs will stay`;
  return ifAny(count, { name: "ipvs others", message });
}
