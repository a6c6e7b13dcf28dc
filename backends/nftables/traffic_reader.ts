import type { FailureReason, Protocol, TrafficReading } from "../../core/model/mod.ts";
import { type Clock, joinHostPort } from "../../platform/mod.ts";
import { failureOf, type Runner } from "../tools/mod.ts";
import {
  BYTES,
  collectRows,
  CONNECTIONS,
  createGrowth,
  type FrontendIndex,
  indexFrontends,
  PACKETS,
} from "../traffic/mod.ts";
import type { Desired } from "./desired.ts";
import { type Dialect, TABLE, type TrafficSetName } from "./table.ts";
import { NFT_FAILURES } from "./tools.ts";

/** Reads the counters of traffic. */
export interface TrafficReader {
  /** Notes the counters of an earlier process, once, so that they do not count again. Call it before the first sync. */
  start(): Promise<void>;
  /** Returns what was counted since the last reading. Throws if the kernel cannot be read. */
  read(): Promise<TrafficReading>;
  /** Forgets which service port owns a frontend, because service ports have changed. */
  forgetOwners(): void;
}

/** Inputs of `createTrafficReader`. */
export interface TrafficReaderOptions {
  readonly desired: Pick<Desired, "servicePorts">;
  readonly dialect: Dialect;
  readonly runner: Runner;
  readonly clock: Clock;
}

/** The protocols by their numbers (IANA), as `nft -n` prints them. */
const PROTOCOL_NUMBERS: Readonly<Record<string, Protocol>> = { 6: "tcp", 17: "udp", 132: "sctp" };

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

const ELEMENTS = "\t\telements = { ", COUNTER = " counter packets ";

/** A reader that has read nothing yet. */
export function createTrafficReader({ desired, dialect, runner, clock }: TrafficReaderOptions): TrafficReader {
  const pairs = createGrowth();
  const growth = new Map(SETS.map((set) => [set, FAILURES[set] === undefined ? pairs : createGrowth()]));
  let owners: FrontendIndex | undefined;
  // Kept if a reading fails halfway, for the next one.
  let rows = collectRows();
  let isStarted = false;

  async function readAll(): Promise<TrafficReading> {
    const startedAtMs = clock.monotonic();
    for (const set of SETS) await readSet(set);
    for (const counters of new Set(growth.values())) counters.endReading();
    const reading = rows.finish(clock.monotonic() - startedAtMs);
    rows = collectRows();
    return reading;
  }

  // nft 1.0.6 lists only one set per call: with more, it reads only the last one from the kernel.
  async function readSet(set: TrafficSetName): Promise<void> {
    const counters = growth.get(set)!;
    const onLine = (line: string) => {
      const start = line.startsWith(ELEMENTS) ? ELEMENTS.length : 0;
      if (!line.includes(COUNTER, start)) return;
      const text = line.slice(start).trimStart();
      if (!text.includes(", ")) return noteElement(text);
      for (const element of text.split(", ")) noteElement(element);
    };
    const noteElement = (element: string) => {
      // 10.96.0.10 . 6 . 80 . 10.1.0.5 . 8080 counter packets 12 bytes 720 expires 599s
      const end = element.indexOf(COUNTER), key = element.slice(0, end);
      const packets = parseInt(element.slice(end + COUNTER.length));
      const bytes = parseInt(element.slice(element.indexOf(" bytes ", end) + " bytes ".length));
      const grown = counters.note(set === "count-connections" ? "first" : "second", key, packets, bytes);
      if (grown === undefined) return;
      const [address, number, port, endpoint, endpointPort] = key.split(" . ");
      owners ??= indexFrontends(desired.servicePorts());
      const protocol = PROTOCOL_NUMBERS[number!];
      const owner = protocol && owners.find(address!, protocol, port!);
      // Other programs translate destinations, too.
      if (owner === undefined) return;
      const reason = FAILURES[set];
      if (reason !== undefined) return rows.fail(owner, reason, grown.packets);
      const to = joinHostPort(endpoint!, Number(endpointPort));
      if (set === "count-connections") return rows.add(owner, to, CONNECTIONS, grown.packets);
      rows.add(owner, to, PACKETS, grown.packets);
      rows.add(owner, to, BYTES, grown.bytes);
    };
    const args = ["-n", "list", "set", dialect.ip, TABLE, set];
    const failure = failureOf("nft list set", await runner.run({ tool: "nft", args, onLine }), NFT_FAILURES);
    if (failure !== undefined && failure.kind !== "absent") throw new Error(failure.text);
  }

  return {
    async start() {
      if (isStarted) return;
      await readAll();
      isStarted = true;
    },
    read: readAll,
    forgetOwners() {
      owners = undefined;
    },
  };
}
