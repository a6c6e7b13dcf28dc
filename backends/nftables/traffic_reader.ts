import {
  BYTES,
  collectRows,
  CONNECTIONS,
  frontendsOf,
  PACKETS,
  PROTOCOL_NUMBERS,
  PROTOCOLS,
} from "../../core/model/mod.ts";
import { type Clock, joinFlat, joinHostPort } from "../../platform/mod.ts";
import type { TrafficReader } from "../contract/mod.ts";
import { failureText, type Runner } from "../tools/mod.ts";
import { createGrowth, createOwners, createReadings, type Grown } from "../traffic/mod.ts";
import type { Desired } from "./desired.ts";
import { type PairFrontend, pairHashes } from "./hashes.ts";
import { declarationOf, type SetName, setsWith } from "./sets.ts";
import { TABLE } from "./table.ts";
import { elementReader } from "./listing.ts";
import type { NftTools } from "./tools.ts";

const FAILURES = setsWith("failures"), SETS: readonly SetName[] = ["count-connections", "count-packets", ...FAILURES];

const COUNTER = " counter packets ", OF_BYTES = " bytes ";

type TrafficTools = Pick<NftTools, "list" | "dialect">;

/** The growth of a counter whose pair is not known yet. */
interface Unnamed extends Grown, UnnamedCounter {
  readonly hash: number;
}

/** A reader that has read nothing yet. */
export function createTrafficReader(
  desired: Pick<Desired, "servicePorts">,
  tools: TrafficTools,
  runner: Runner,
  clock: Clock,
): TrafficReader {
  const lister = createSetLister(runner, tools);
  const names = createPairNames(desired, lister);
  const pairs = createGrowth<number>();
  const failing = new Map(FAILURES.map((set) => [set, createGrowth()]));
  const owners = createOwners(desired), rows = collectRows();
  let unnamed: Unnamed[] = [];
  let isStarted = false;

  // Other programs translate destinations, too: they have no owner.
  const ownerOf = ({ address, protocol, port }: PairFrontend) => owners.find(address, protocol, port);
  const count = ({ frontend, endpoint }: Pair, { isConnection, packets, bytes }: Omit<Unnamed, "hash">) => {
    const owner = ownerOf(frontend);
    if (owner === undefined) return;
    if (isConnection) return rows.add(owner, endpoint, CONNECTIONS, packets);
    rows.add(owner, endpoint, PACKETS, packets);
    rows.add(owner, endpoint, BYTES, bytes);
  };
  const noteElement = (set: SetName, element: string) => {
    // 0x1c3fa2b7 counter packets 12 bytes 720 expires 599s
    const end = element.indexOf(COUNTER), key = element.slice(0, end);
    const packets = parseInt(element.slice(end + COUNTER.length));
    const bytes = parseInt(element.slice(element.indexOf(OF_BYTES, end) + OF_BYTES.length));
    const reason = declarationOf(set).failures;
    if (reason === undefined) return noteHash(Number(key) | 0, set === "count-connections", packets, bytes);
    const grown = failing.get(set)!.note("second", key, packets, bytes);
    const frontend = grown && readFrontend(key), owner = frontend && ownerOf(frontend);
    if (owner !== undefined) rows.fail(owner, reason, grown!.packets);
  };
  const noteHash = (hash: number, isConnection: boolean, packets: number, bytes: number) => {
    const grown = pairs.note(isConnection ? "first" : "second", hash, packets, bytes);
    if (grown === undefined) return;
    const pair = names.find(grown.place);
    if (pair) count(pair, { isConnection, ...grown });
    else if (isStarted) unnamed.push({ hash, isConnection, ...grown });
  };
  const nameAll = async () => {
    const wanted = new Map<number, Unnamed>();
    for (const each of unnamed) if (each.isConnection || !wanted.has(each.hash)) wanted.set(each.hash, each);
    if (wanted.size > 0) await names.learn(wanted);
    for (const each of unnamed) {
      const pair = names.find(each.place);
      if (pair) count(pair, each);
    }
    unnamed = [];
  };

  const readAll = async (isFirst: boolean) => {
    isStarted = !isFirst;
    await lister.list(SETS, noteElement);
    await nameAll();
    pairs.endReading(names.forget);
    for (const counters of failing.values()) counters.endReading();
  };

  return {
    ...createReadings({ rows, clock, readAll }),
    forgetOwners() {
      owners.forget();
      names.retry();
    },
  };
}

/** A pair of frontend and endpoint. */
interface Pair {
  readonly frontend: PairFrontend;
  /** `address:port`. */
  readonly endpoint: string;
}

/** A counter whose pair is to be learned. */
interface UnnamedCounter {
  readonly place: number;
  /** Whether it counts new connections. */
  readonly isConnection: boolean;
}

/** The protocols by the numbers that `nft -n` prints. */
const BY_NUMBER = new Map(PROTOCOLS.map((protocol) => [String(PROTOCOL_NUMBERS[protocol]), protocol]));

/** Reads a frontend from the start of a key, as `nft -n` prints it; undefined if services do not have its protocol. */
function readFrontend(key: string): PairFrontend | undefined {
  const [address, number, port] = key.split(" . ");
  const protocol = BY_NUMBER.get(number!);
  // A copy, since a part of a line would keep the whole line in memory.
  return protocol && { address: joinFlat("", address!), protocol, port: parseInt(port!) };
}

/** Reads the endpoint from the end of a key. */
function readEndpoint(key: string): string {
  const [, , , address, port] = key.split(" . ");
  return joinHostPort(address!, parseInt(port!));
}

/** Finds the pairs that hashes stand for, none of which is known yet. */
function createPairNames(desired: Pick<Desired, "servicePorts">, lister: ReturnType<typeof createSetLister>) {
  // By place: 30,000 objects would take twice the memory.
  const frontends: (PairFrontend | undefined)[] = [];
  const endpoints: (string | undefined)[] = [];
  const nameless = new Set<number>();

  const learnPairs = (frontend: PairFrontend, candidates: Iterable<string>, wanted: Map<number, UnnamedCounter>) => {
    for (const { endpoint, hash } of pairHashes(frontend, candidates)) {
      const counter = wanted.get(hash);
      if (counter === undefined) continue;
      wanted.delete(hash);
      frontends[counter.place] = frontend;
      endpoints[counter.place] = endpoint;
    }
  };
  const learnPlanned = (wanted: Map<number, UnnamedCounter>) => {
    for (const servicePort of desired.servicePorts()) {
      if (wanted.size === 0) return;
      const candidates = new Set([...servicePort.clusterEndpoints, ...servicePort.localEndpoints]);
      for (const { address, port } of frontendsOf(servicePort)) {
        // A node port has the addresses of the node.
        if (address !== "") learnPairs({ address, protocol: servicePort.protocol, port }, candidates, wanted);
      }
    }
  };

  return {
    /** The pair of the counter at a place, if it has been learned. */
    find(place: number): Pair | undefined {
      const frontend = frontends[place], endpoint = endpoints[place];
      return frontend && endpoint !== undefined ? { frontend, endpoint } : undefined;
    },
    /**
     * Learns pairs: first from the planned service ports, then, for node ports, from the kernel. A hash without a pair is not
     * looked for again, unless it is new or has a new connection.
     * @param wanted by hash; emptied of those that were learned
     */
    async learn(wanted: Map<number, UnnamedCounter>): Promise<void> {
      for (const [hash, { place, isConnection }] of wanted) {
        if (!isConnection && nameless.has(place)) wanted.delete(hash);
      }
      if (wanted.size > 0) learnPlanned(wanted);
      if (wanted.size === 0) return;
      await lister.list(["count-pairs"], (_, element) => {
        const frontend = readFrontend(element);
        if (frontend) learnPairs(frontend, [readEndpoint(element)], wanted);
      });
      for (const { place } of wanted.values()) nameless.add(place);
    },
    forget(place: number): void {
      frontends[place] = endpoints[place] = undefined;
      nameless.delete(place);
    },
    /** Looks for all hashes again, because service ports have changed. */
    retry: () => nameless.clear(),
  };
}

const ABSENT = /No such file or directory/g;

/**
 * A lister that lists all sets with one process, since a process takes 5 ms of processor time. nft 1.0.6 cannot list two
 * sets with one call, but each line of its interactive mode is a separate call.
 */
function createSetLister(runner: Runner, tools: TrafficTools) {
  const objectOf = (set: SetName) => `set ${tools.dialect.ip} ${TABLE} ${set}`;
  // nft may be built without it.
  let isInteractive = true;

  return {
    /** Calls `onListed` with each element, as `nft -n` prints it. Throws if a set cannot be listed, after some of the calls. */
    async list(sets: readonly SetName[], onListed: (set: SetName, element: string) => void): Promise<void> {
      let printed = 0;
      const onLine = elementReader((set, element) => onListed(set as SetName, element), () => printed++);
      if (isInteractive) {
        const stdin = sets.map((set) => `list ${objectOf(set)}\n`);
        const result = await runner.run({ tool: "nft", args: ["-n", "-i"], stdin, onLine });
        const absent = result.stderr.match(ABSENT)?.length ?? 0;
        if (result.exitCode === 0 && printed + absent === sets.length) return;
        // Each line may fail, whatever the exit code.
        if (printed > 0 || absent > 0) throw new Error(failureText("nft list set", result));
        isInteractive = false;
      }
      for (const set of sets) await tools.list(objectOf(set), onLine, { args: ["-n"] });
    },
  };
}
