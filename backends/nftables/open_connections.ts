/**
 * Counts the open TCP connections of endpoints, for `least-connections`.
 *
 * A table of its own has a counter of opened and one of ended connections for each endpoint: two elements of sets, which the
 * proxy adds and rules find. Two labels of a connection say that it is counted, and that its end is, so that a repeated SYN-ACK, a
 * second FIN or a reset counts nothing. A connection is open once the endpoint has answered; a refused one never is. The table
 * exists only while the connections of any endpoint are counted, and its counts outlive the proxy.
 *
 * A rare listing of conntrack corrects what the rules cannot see: connections that began before the table, or whose entry
 * was deleted or has expired.
 */
import { type ConnectionReading, type EndpointConnections, type Family, isCounted } from "../../core/model/mod.ts";
import { type Clock, errorText, type Logger } from "../../platform/mod.ts";
import { listFlows } from "../host/mod.ts";
import { ifInstalled, type NftSession, type Runner } from "../tools/mod.ts";
import type { Desired } from "./desired.ts";
import { type BaseChain, CONNECTIONS_TABLE, type Dialect, endpointElement, filterChain } from "./table.ts";
import { elementsOf, type NftTools } from "./tools.ts";
import { elementStatements, tableStatements } from "./transaction.ts";

/** Counts connections while service ports ask for it. */
export interface ConnectionCounter {
  /** Has the kernel count the connections of the endpoints that are asked for, and reads them. Throws if it cannot. */
  read(): Promise<ConnectionReading>;
  /** Notes that service ports have changed. */
  noteChange(): void;
}

/** The labels of connections; other programs that use labels begin at 0. */
const COUNTED = 126, ENDED = 127;

/** The hooks through which the packets of connections pass; those of this host with itself pass two. */
const HOOKS = ["forward", "input", "output"] as const;

/** The sets of counters by endpoint. */
const SETS = ["ended", "opened"] as const;

/**
 * The pauses before listings of conntrack: short ones after the table was created, since the end of a connection from before is
 * found by the next listing only, and most of those are short; each pause is twice as long as the one before.
 */
const FIRST_LISTING_PAUSE_MS = 10_000;
const LONGEST_LISTING_PAUSE_MS = 600_000;
/** Listings take at most this share of the time: 100,000 entries take half a second of processor time. */
const LISTING_SHARE = 0.001;

/** Matches an element and its counter: `10.1.0.1 . 80 counter packets 5 bytes 260`. */
const COUNTER = /^(\S+ \. \d+) counter packets (\d+)/;

/** The options of `createConnectionCounter`. */
interface CounterOptions {
  readonly family: Family;
  readonly desired: Pick<Desired, "servicePorts">;
  readonly dialect: Dialect;
  readonly tools: Pick<NftTools, "write" | "list" | "dialect" | "removeTable">;
  /** The nft that lists the sets. */
  readonly readings: NftSession;
  readonly runner: Runner;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A counter that has not read anything. */
export function createConnectionCounter(options: CounterOptions): ConnectionCounter {
  const { clock } = options;
  const table = createCountingTable(options), counts = createCounts(options, table);
  /** The kernel's count of changes when the counters were last read. */
  let changes: string | undefined;

  async function read(): Promise<ConnectionReading> {
    const startedAtMs = clock.monotonic();
    const { hasChanged, isNew } = await table.follow();
    if (isNew) counts.startAgain();
    const reading = (endpoints: ConnectionReading["endpoints"]) => (
      { endpoints, durationMs: clock.monotonic() - startedAtMs }
    );
    if (table.isEmpty()) return reading(new Map());
    const now = (await table.elementsOf("changes")).join();
    if (!hasChanged && now === changes && !counts.isListingDue(startedAtMs)) return reading(undefined);
    const read = await counts.read();
    changes = now;
    if (!counts.isListingDue(startedAtMs)) return reading(read);
    // It is rare, so its duration does not count.
    const { durationMs } = reading(read);
    return { endpoints: await counts.correct(read), durationMs };
  }

  return {
    async read() {
      try {
        return await read();
      } catch (error) {
        table.forget();
        throw error;
      }
    },
    noteChange: table.noteChange,
  };
}

/** The table in the kernel. Its asynchronous methods throw the tool's error. */
function createCountingTable({ desired, dialect, tools, readings }: CounterOptions) {
  const name = `${dialect.ip} ${CONNECTIONS_TABLE}`;
  const state: {
    /** The endpoints to count, by element; undefined after a change of service ports. */
    wanted?: ReadonlyMap<string, string>;
    /** The elements of both sets; undefined while unknown. */
    counted?: ReadonlySet<string>;
  } = {};
  const countersOf = async (set: string) => {
    const elements = await elementsOf(tools, set, readings, CONNECTIONS_TABLE);
    if (elements !== undefined) return elements;
    throw new Error(`the set ${set} of table ${name} is gone`);
  };
  const create = async (): Promise<ReadonlySet<string>> => {
    const statements = statementsOf(dialect);
    await tools.write(statements).catch(async () => {
      // Another version of Sluice may have left other sets.
      await tools.removeTable(CONNECTIONS_TABLE);
      await tools.write(statements);
    });
    return new Set((await countersOf("opened")).map((element) => element.split(" counter ")[0]!));
  };

  return {
    elementsOf: countersOf,
    isEmpty: () => state.wanted?.size === 0,
    noteChange: () => void (state.wanted = undefined),
    /** The next call of `follow` creates the table, or finds it. */
    forget: () => void (state.counted = undefined),
    /** Has exactly the elements of the endpoints that are asked for, and no table without any. */
    async follow(): Promise<{ readonly hasChanged: boolean; readonly isNew: boolean }> {
      const isNew = state.counted === undefined;
      if (state.wanted !== undefined && !isNew) return { hasChanged: false, isNew };
      const wanted = state.wanted ??= endpointsToCount(desired);
      if (wanted.size === 0) {
        await tools.removeTable(CONNECTIONS_TABLE);
        state.counted = undefined;
        return { hasChanged: false, isNew };
      }
      const before = state.counted ??= await create();
      const added = [...wanted.keys()].filter((key) => !before.has(key));
      const deleted = [...before].filter((key) => !wanted.has(key));
      const statements = [["delete", deleted] as const, ["add", added] as const].flatMap(([verb, keys]) =>
        SETS.flatMap((set) => [...elementStatements(verb, name, set, keys, (key) => key)])
      );
      if (statements.length > 0) await tools.write(statements);
      state.counted = new Set(wanted.keys());
      return { hasChanged: added.length + deleted.length > 0, isNew };
    },
    /** The counters of a set by endpoint. */
    async countersIn(set: typeof SETS[number]): Promise<ReadonlyMap<string, number>> {
      return new Map((await countersOf(set)).flatMap((element) => {
        const [, key = "", packets] = COUNTER.exec(element) ?? [], endpoint = state.wanted?.get(key);
        return endpoint === undefined ? [] : [[endpoint, Number(packets)] as const];
      }));
    },
  };
}

/** The open connections by the kernel's counters, corrected by listings of conntrack. */
function createCounts(
  { family, runner, clock, logger }: CounterOptions,
  table: ReturnType<typeof createCountingTable>,
) {
  const listing = { pauseMs: 0, dueMs: 0 };
  /** The connections that the listing has found in addition to those counted; fewer than none if negative. */
  let uncounted = new Map<string, number>();

  const read = async (): Promise<ReadonlyMap<string, EndpointConnections>> => {
    // In this order, a connection that opens and ends in between is counted as open.
    const ended = await table.countersIn("ended"), opened = await table.countersIn("opened");
    return new Map([...opened].map(([endpoint, opened]) => {
      const open = opened - (ended.get(endpoint) ?? 0) + (uncounted.get(endpoint) ?? 0);
      // More have ended than were counted: those were uncounted ones, or an endpoint was added again.
      if (open < 0) uncounted.set(endpoint, (uncounted.get(endpoint) ?? 0) - open);
      return [endpoint, { open: Math.max(0, open), opened }];
    }));
  };
  /** The number of connections by endpoint that conntrack has, of these endpoints; undefined if it cannot be found. */
  const list = async (endpoints: ReadonlyMap<string, unknown>): Promise<ReadonlyMap<string, number> | undefined> => {
    const startedAtMs = clock.monotonic(), listed = new Map<string, number>();
    try {
      // 100,000 entries take half a second of processor time.
      await ifInstalled(listFlows("tcp", family, runner, { isTranslated: false }, ({ answeredBy }) => {
        if (endpoints.has(answeredBy)) listed.set(answeredBy, (listed.get(answeredBy) ?? 0) + 1);
      }));
      return listed;
    } catch (error) {
      logger.warn("cannot list connections: long ones may be missing from the counts of open connections", {
        error: errorText(error),
      });
      return undefined;
    } finally {
      const endedAtMs = clock.monotonic();
      listing.pauseMs = Math.min(2 * listing.pauseMs, LONGEST_LISTING_PAUSE_MS);
      listing.dueMs = endedAtMs + Math.max(listing.pauseMs, (endedAtMs - startedAtMs) / LISTING_SHARE);
    }
  };

  return {
    read,
    isListingDue: (nowMs: number) => nowMs >= listing.dueMs,
    /** Begins with counters about whose earlier connections nothing is known. */
    startAgain(): void {
      uncounted = new Map();
      listing.pauseMs = FIRST_LISTING_PAUSE_MS;
      listing.dueMs = clock.monotonic() + FIRST_LISTING_PAUSE_MS;
    },
    /** Corrects the counts by what conntrack knows, if it has changed less in the meantime. */
    async correct(before: ReadonlyMap<string, EndpointConnections>): Promise<ReadonlyMap<string, EndpointConnections>> {
      const listed = await list(before);
      if (listed === undefined) return before;
      const after = await read();
      const corrected = new Map<string, number>();
      for (const [endpoint, { open, opened }] of after) {
        const was = before.get(endpoint), known = uncounted.get(endpoint) ?? 0;
        const error = (listed.get(endpoint) ?? 0) - open;
        const began = opened - (was?.opened ?? 0), ended = began - (open - (was?.open ?? 0));
        corrected.set(endpoint, Math.abs(error) > began + ended ? known + error : known);
      }
      uncounted = corrected;
      return await read();
    },
  };
}

/** The endpoints whose connections are counted, each by its element. */
function endpointsToCount(desired: Pick<Desired, "servicePorts">): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const { balance, clusterEndpoints, localEndpoints } of desired.servicePorts()) {
    if (balance === undefined || !isCounted(balance)) continue;
    for (const endpoint of [...clusterEndpoints, ...localEndpoints]) found.set(endpointElement(endpoint), endpoint);
  }
  return found;
}

/** Statements that create the table, or write its rules again. */
function statementsOf(dialect: Dialect): readonly string[] {
  const { ip } = dialect, counters = { lines: ["type ipv4_addr . inet_service", "counter"] };
  // nft 1.0.6 knows the type of ct's ports only after a match of one protocol.
  const endpoint = `meta l4proto tcp ct reply ${ip} saddr . ct reply proto-src`;
  const counted = `ct label ${COUNTED}`, ended = `ct label ${ENDED}`;
  const inner = (name: string, rules: readonly string[]): BaseChain => ({ name, hook: undefined, rules });
  const sets = { ended: counters, opened: counters, changes: { lines: ["type inet_proto", "counter"] } };
  const ofHook = [
    "tcp flags & (syn | ack) == syn | ack ct status dnat goto count-opened",
    "tcp flags & (fin | rst) != 0 ct status dnat goto count-ended",
  ];
  const chains = [
    inner("count-opened", [`${counted} return`, `${endpoint} @opened ct label set ${COUNTED} meta l4proto @changes`]),
    inner("count-ended", [
      `${ended} return`,
      `${counted} ct label set ${ENDED} ${endpoint} @ended meta l4proto @changes`,
    ]),
    ...HOOKS.map((hook) => filterChain(hook, ofHook)),
  ];
  return [
    ...tableStatements(CONNECTIONS_TABLE, sets, chains, dialect),
    `add element ${ip} ${CONNECTIONS_TABLE} changes { tcp }`,
  ];
}
