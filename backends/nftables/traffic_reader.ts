import type { FailureReason, TrafficReading } from "../../core/model/mod.ts";
import type { Clock } from "../../platform/mod.ts";
import type { Runner } from "../tools/mod.ts";
import {
  BYTES,
  collectRows,
  CONNECTIONS,
  createGrowth,
  type FrontendIndex,
  type Grown,
  indexFrontends,
  PACKETS,
} from "../traffic/mod.ts";
import type { TrafficReader } from "../contract/mod.ts";
import type { Desired } from "./desired.ts";
import type { PairFrontend } from "./pair_hash.ts";
import { createPairNames, type Pair, readFrontend, type UnnamedCounter } from "./pair_names.ts";
import { createSetLister } from "./set_lister.ts";
import type { Dialect, TrafficSetName } from "./table.ts";
import { NFT_FAILURES } from "./tools.ts";

/** Inputs of `createTrafficReader`. */
export interface TrafficReaderOptions {
  readonly desired: Pick<Desired, "servicePorts">;
  readonly dialect: Dialect;
  readonly runner: Runner;
  readonly clock: Clock;
}

const FAILURES: Readonly<Partial<Record<TrafficSetName, FailureReason>>> = {
  "count-rejected": "no-endpoints",
  "count-dropped": "traffic-policy",
  "count-outside": "source-range",
  "count-unanswered": "unanswered",
};

const SETS: readonly TrafficSetName[] = [
  "count-connections",
  "count-packets",
  ...Object.keys(FAILURES) as TrafficSetName[],
];

const COUNTER = " counter packets ", OF_BYTES = " bytes ";

/** The growth of a counter whose pair is not known yet. */
interface Unnamed extends Grown, UnnamedCounter {
  readonly hash: number;
}

/** A reader that has read nothing yet. */
export function createTrafficReader({ desired, dialect, runner, clock }: TrafficReaderOptions): TrafficReader {
  const lister = createSetLister({ runner, ip: dialect.ip, failures: NFT_FAILURES });
  const names = createPairNames({ servicePorts: () => desired.servicePorts(), lister });
  const pairs = createGrowth<number>();
  const failing = new Map(Object.keys(FAILURES).map((set) => [set, createGrowth()]));
  let owners: FrontendIndex | undefined;
  // Kept if a reading fails halfway, for the next one.
  let rows = collectRows();
  let unnamed: Unnamed[] = [];
  let isStarted = false;

  const ownerOf = ({ address, protocol, port }: PairFrontend) => {
    owners ??= indexFrontends(desired.servicePorts());
    // Other programs translate destinations, too: they have no owner.
    return owners.find(address, protocol, port);
  };
  const count = ({ frontend, endpoint }: Pair, { isConnection, packets, bytes }: Omit<Unnamed, "hash">) => {
    const owner = ownerOf(frontend);
    if (owner === undefined) return;
    if (isConnection) return rows.add(owner, endpoint, CONNECTIONS, packets);
    rows.add(owner, endpoint, PACKETS, packets);
    rows.add(owner, endpoint, BYTES, bytes);
  };
  const noteElement = (set: TrafficSetName, element: string) => {
    // 0x1c3fa2b7 counter packets 12 bytes 720 expires 599s
    const end = element.indexOf(COUNTER), key = element.slice(0, end);
    const packets = parseInt(element.slice(end + COUNTER.length));
    const bytes = parseInt(element.slice(element.indexOf(OF_BYTES, end) + OF_BYTES.length));
    const reason = FAILURES[set];
    // An earlier version of Sluice had other keys.
    if (reason === undefined && !key.startsWith("0x")) return;
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

  async function readAll(): Promise<TrafficReading> {
    const startedAtMs = clock.monotonic();
    await lister.list(SETS, noteElement);
    await nameAll();
    pairs.endReading(names.forget);
    for (const counters of failing.values()) counters.endReading();
    const reading = rows.finish(clock.monotonic() - startedAtMs);
    rows = collectRows();
    return reading;
  }

  async function start(): Promise<void> {
    if (isStarted) return;
    await readAll();
    isStarted = true;
  }

  return {
    start,
    async read() {
      await start();
      return await readAll();
    },
    forgetOwners() {
      owners = undefined;
      names.retry();
    },
  };
}
