/**
 * Resets connections of services to dead endpoints at the client's next packet, in all modes in which conntrack translates their
 * destinations.
 *
 * A table of its own has a set of pairs of frontend and endpoint, each for a limited time, and a rule for packets of established
 * connections that neither begin nor end one. It compares the destination before and after the translation, so connections that
 * something else has translated to the same endpoint are left alone. The table exists only while the set may have elements, and
 * not longer than the proxy: one that is found at the start is removed.
 */
import { endpointsIn, type FamilyDelta, type GoneEndpoint, RESET_LIFETIME_MS } from "../../core/model/mod.ts";
import { createTurns, errorText } from "../../platform/mod.ts";
import type { Backend, BackendOptions } from "../contract/mod.ts";
import { deleteFlows, inTurns, listFlows } from "../host/mod.ts";
import { createNftSession, ifInstalled, type Runner, ToolMissingError } from "../tools/mod.ts";
import { type Dialect, DIALECTS, durationText, endpointElement, filterChain, RESETS_TABLE } from "./table.ts";
import { createNftTools } from "./tools.ts";
import { elementStatements, tableStatements } from "./transaction.ts";

const SET = "connections", COUNTER = "rejected";
/** The longest time from the decision to add an element until the kernel has it, when its lifetime begins. */
const LONGEST_WRITE_MS = 60_000;
/** The most elements that the long-running nft gets, in one line. */
const MOST_IN_SESSION = 1_000;
/** The time after which further deletions of conntrack entries begin with those that have come meanwhile. */
const LONGEST_DELETION_MS = 5_000;
/** The hooks through which the packets of clients pass on their way to other hosts. */
const HOOKS = ["forward", "output"] as const;

/** The endpoints whose connections are reset (`address:port`). */
type Resets = Map<string, Reset>;

interface Reset {
  /** The frontends from which the connections come. */
  readonly frontends: readonly string[];
  /** When its elements expire, by the monotonic clock. */
  readonly untilMs: number;
}

type EndpointReset = readonly [endpoint: string, Reset];

/** Connections through one frontend to one endpoint, of a service in this namespace. */
interface Offloaded {
  readonly namespace: string;
  readonly endpoint: string;
  readonly frontend: string;
}

/** Reports that connections are not reset, by scope; without a detail, that they are again. */
type Report = (scope: "resets" | "flow tables", detail?: string) => void;

/**
 * Adds `resetGone` to a backend. A failure delays no sync. It ends all resets, which harms no connection, and is a problem until
 * the next success.
 * @param isPossible whether the mode has such connections; otherwise, only the table of another mode is removed
 */
export function withResets(backend: Backend, options: BackendOptions, isPossible: boolean): Backend {
  const resets = createResets(options);
  return {
    ...backend,
    async setup() {
      await Promise.all([backend.setup(), resets.start()]);
    },
    async sync(delta) {
      const taken = resets.takeOut(delta);
      if (taken) await taken;
      return await backend.sync(delta);
    },
    async resync(cause) {
      const result = await backend.resync(cause), count = await resets.compare();
      return count === 0 ? result : { ...result, counts: { ...result.counts, connections_reset: count } };
    },
    async resetGone(gone) {
      if (isPossible) await resets.add(gone);
    },
    stop: resets.stop,
    async cleanup() {
      try {
        await backend.cleanup();
      } finally {
        await resets.remove();
      }
    },
  };
}

/** The resets of one family. */
function createResets(options: BackendOptions) {
  const { clock, logger } = options;
  const resets: Resets = new Map();
  const table = createTable(options), report = createReport(options);
  const offloaded = createOffloadedDeletion(options, resets, report);
  const steps = createSteps(table, resets, report);
  const state = { isStopped: false, hasReportedMissing: false, unreportedPackets: 0 };

  const writeCurrent = async (added: readonly EndpointReset[]) => {
    const current = added.filter(([endpoint, reset]) => resets.get(endpoint) === reset);
    if (current.length > 0) await table.write(current, ["add"]);
  };
  const removeIfPresent = async () => {
    if (table.presence() === "present") await table.remove();
  };
  const compareTable = async () => {
    if (table.presence() !== "present") return;
    const packets = await table.readRejected();
    if (packets === undefined) return resets.clear();
    state.unreportedPackets += packets;
    forgetExpired(resets, clock.monotonic());
    if (resets.size === 0) await table.remove();
    else await table.findFlowTable();
  };

  return {
    /** Removes the table of an earlier process. */
    start: () => steps.take(),
    /** Takes endpoints that are used again out of the set; undefined if none is. */
    takeOut({ set }: FamilyDelta): Promise<void> | undefined {
      const used = resets.size > 0 ? forgetUsed(resets, set) : [];
      if (used.length === 0) return table.presence() === "unknown" ? steps.take() : undefined;
      steps.take(async () => {
        // Changes do not wait for conntrack.
        await offloaded.stopAt(used.map(([endpoint]) => endpoint));
        // Some may have expired, and only existing ones can be deleted.
        if (table.presence() === "present") await table.write(used, ["add", "delete"]);
      });
      // If that fails, the table is removed.
      return steps.take();
    },
    /** Resets the connections to endpoints that are gone. */
    async add(gone: readonly GoneEndpoint[]): Promise<void> {
      if (state.isStopped) return;
      if (steps.isNftMissing() && !state.hasReportedMissing) {
        logger.info("connections to deleted endpoints are not reset: nft is not installed");
        state.hasReportedMissing = true;
      }
      forgetExpired(resets, clock.monotonic());
      const added = noteGone(resets, gone, clock.monotonic() + RESET_LIFETIME_MS + LONGEST_WRITE_MS);
      await steps.take(() => writeCurrent(added));
      if (table.hasFlowTable()) offloaded.add(gone);
    },
    /** Reads the table, and removes it if its elements have expired. Resolves with the packets rejected since the last call. */
    async compare(): Promise<number> {
      if (table.presence() !== "absent") await steps.take(compareTable);
      const { unreportedPackets } = state;
      state.unreportedPackets = 0;
      return unreportedPackets;
    },
    /** Ends all resets, and begins none afterwards. */
    async stop(): Promise<void> {
      state.isStopped = true;
      resets.clear();
      // A write that is under way may create the table.
      await steps.take(removeIfPresent);
    },
    /** Removes the table if nft is installed. Throws the tool's error. */
    async remove(): Promise<void> {
      resets.clear();
      await steps.ended();
      await ifInstalled(table.remove());
    },
  };
}

/** Runs one step at a time on the table. A step that fails ends all resets. */
function createSteps(table: ReturnType<typeof createTable>, resets: Resets, report: Report) {
  const turns = createTurns();
  let isNftMissing = false;
  const run = async (step?: () => Promise<void>) => {
    if (isNftMissing) return;
    try {
      if (table.presence() === "unknown") await table.remove();
      await step?.();
      report("resets");
    } catch (error) {
      resets.clear();
      isNftMissing = error instanceof ToolMissingError;
      table.setPresence(isNftMissing ? "absent" : "unknown");
      if (!isNftMissing) report("resets", errorText(error));
    }
  };
  return {
    /** Runs a step after all earlier ones, and after the removal of an unknown table. Does not throw. */
    take: (step?: () => Promise<void>): Promise<void> => turns.take(() => run(step)),
    ended: turns.ended,
    isNftMissing: () => isNftMissing,
  };
}

/** Notes the resets of endpoints that are gone, until a time of the monotonic clock; returns them. */
function noteGone(resets: Resets, gone: readonly GoneEndpoint[], untilMs: number): readonly EndpointReset[] {
  return gone.map(({ endpoint, frontends }) => {
    const earlier = resets.get(endpoint)?.frontends ?? [];
    const reset = { frontends: [...new Set([...earlier, ...frontends])], untilMs };
    resets.set(endpoint, reset);
    return [endpoint, reset];
  });
}

/** Forgets the resets of endpoints that these service ports use again; returns them. */
function forgetUsed(resets: Resets, servicePorts: FamilyDelta["set"]): readonly EndpointReset[] {
  const used: EndpointReset[] = [];
  for (const port of servicePorts) {
    if (port.protocol !== "tcp") continue;
    for (const endpoint of endpointsIn(port)) {
      const reset = resets.get(endpoint);
      if (reset && resets.delete(endpoint)) used.push([endpoint, reset]);
    }
  }
  return used;
}

function forgetExpired(resets: Resets, nowMs: number): void {
  for (const [endpoint, { untilMs }] of resets) if (untilMs <= nowMs) resets.delete(endpoint);
}

/** Creates the reports of one family. A failure stays until the next success in its scope. */
function createReport({ family, onProblems }: BackendOptions): Report {
  const failing = new Set<string>();
  return (scope, detail) => {
    // A report is a message to the main isolate.
    if (detail === undefined && !failing.delete(scope)) return;
    if (detail !== undefined) failing.add(scope);
    const problem = (detail: string) => ({ code: "connections-not-reset", subject: family, detail }) as const;
    onProblems?.(scope, detail === undefined ? [] : [problem(detail)]);
  };
}

/** Statements that create the table. */
function* creation(dialect: Dialect): Generator<string> {
  const { ip } = dialect, type = "type ipv4_addr . inet_service . ipv4_addr . inet_service";
  const rule = `meta l4proto tcp tcp flags & (fin | syn | rst) == 0 ct state established ct direction original ` +
    `ct status dnat ct original ${ip} daddr . ct original proto-dst . ${ip} daddr . tcp dport @${SET} ` +
    `counter name ${COUNTER} reject with tcp reset`;
  const sets = { [SET]: { lines: [type, `timeout ${durationText(RESET_LIFETIME_MS / 1_000)}`] } };
  yield* [`add table ${ip} ${RESETS_TABLE}`, `add counter ${ip} ${RESETS_TABLE} ${COUNTER}`];
  yield* tableStatements(RESETS_TABLE, sets, HOOKS.map((hook) => filterChain(hook, [rule])), dialect);
}

/** The table in the kernel. Its asynchronous methods throw the tool's error. */
function createTable(options: BackendOptions) {
  const { family, runner } = options, dialect = DIALECTS[family], name = `${dialect.ip} ${RESETS_TABLE}`;
  const session = createNftSession(options);
  const tools = createNftTools(family, runner), sessionTools = createNftTools(family, runner, session);
  const state = {
    // Unknown at the start and after a failure: it may have elements of endpoints that are used again.
    presence: "unknown" as "unknown" | "absent" | "present",
    counted: 0,
    hasFlowTable: false,
  };
  return {
    presence: () => state.presence,
    setPresence: (presence: typeof state.presence) => void (state.presence = presence),
    /** Whether packets of connections may skip the table, when that was last found out. */
    hasFlowTable: () => state.hasFlowTable,
    async findFlowTable(): Promise<void> {
      state.hasFlowTable = await hasFlowTable(runner);
    },
    /** Adds or deletes the elements of endpoints, by the verbs of nft. */
    async write(some: readonly EndpointReset[], verbs: readonly ("add" | "delete")[]): Promise<void> {
      const elements = some.flatMap(([endpoint, { frontends }]) =>
        frontends.map((frontend) => `${endpointElement(frontend)} . ${endpointElement(endpoint)}`)
      );
      const statements = verbs.flatMap((verb) => [...elementStatements(verb, name, SET, elements, (text) => text)]);
      const { write } = elements.length > MOST_IN_SESSION ? tools : sessionTools, isNew = state.presence !== "present";
      await write(isNew ? [...creation(dialect), ...statements] : statements);
      state.presence = "present";
      if (isNew) state.hasFlowTable = await hasFlowTable(runner);
    },
    async remove(): Promise<void> {
      // At the end of the proxy, there is little time to start a process.
      const isRemoved = state.presence === "present" &&
        await session.transact([`delete table ${name}`]).catch(() => false);
      if (!isRemoved) await tools.removeTable(RESETS_TABLE);
      state.presence = "absent";
      state.counted = 0;
    },
    /** The packets rejected since the last call; undefined if another program has removed the table. */
    async readRejected(): Promise<number | undefined> {
      let packets = NaN;
      const isThere = await tools.list(`counter ${name} ${COUNTER}`, (line) => {
        const count = /^\s*packets (\d+)/.exec(line)?.[1];
        if (count !== undefined) packets = Number(count);
      });
      if (!isThere) {
        state.presence = "absent";
        state.counted = 0;
        return undefined;
      }
      if (Number.isNaN(packets)) throw new Error("nft list counter succeeded, but its output is malformed");
      const rejected = packets - state.counted;
      state.counted = packets;
      return rejected;
    },
  };
}

/**
 * Deletes the conntrack entries of connections in a flow table: their packets skip the rule as long as there is one. conntrack
 * reads its whole table for each pair of frontend and endpoint, so only pairs with connections are deleted, the namespaces in
 * turns.
 */
function createOffloadedDeletion(options: BackendOptions, resets: ReadonlyMap<string, Reset>, report: Report) {
  const { family, runner, clock } = options;
  const state: {
    waiting: readonly Offloaded[];
    isRunning: boolean;
    /** The endpoint of the entries that are being deleted, or were last. */
    current?: { readonly endpoint: string; readonly stop: () => Promise<void> };
  } = { waiting: [], isRunning: false };

  const pairID = ({ frontend, endpoint }: Omit<Offloaded, "namespace">) => `${frontend} ${endpoint}`;
  /** The pairs that have open connections, unless finding that out costs as much as deleting them. */
  const openPairs = async (pairs: readonly Offloaded[]): Promise<ReadonlySet<string>> => {
    const asked = new Set(pairs.map(pairID)), open = new Set<string>();
    if (asked.size <= 1) return asked;
    await listFlows("tcp", family, runner, { isTranslated: true }, ({ destination, answeredBy }) => {
      const id = pairID({ frontend: destination, endpoint: answeredBy });
      if (asked.has(id)) open.add(id);
    });
    return open;
  };
  const deletePair = async ({ endpoint, frontend }: Offloaded): Promise<void> => {
    if (!resets.has(endpoint)) return;
    const stopping = new AbortController();
    const flows = [{ destination: frontend, answeredBy: endpoint }];
    const done = deleteFlows("tcp", family, runner, flows, stopping.signal).then(() => {}, (error) => {
      if (!stopping.signal.aborted) throw error;
    });
    const stop = () => {
      stopping.abort();
      return done.catch(() => {});
    };
    state.current = { endpoint, stop };
    await done;
  };
  const run = async () => {
    state.isRunning = true;
    try {
      while (state.waiting.length > 0) {
        const pairs = state.waiting.filter(({ endpoint }) => resets.has(endpoint));
        state.waiting = [];
        const open = await openPairs(pairs);
        const left = inTurns(pairs.filter((one) => open.has(pairID(one))), ({ namespace }) => namespace);
        // New ones have their turn after a limited time.
        const endMs = clock.monotonic() + LONGEST_DELETION_MS;
        while (left.length > 0 && clock.monotonic() < endMs) await deletePair(left.shift()!);
        state.waiting = [...left, ...state.waiting];
      }
      report("flow tables");
    } catch (error) {
      state.waiting = [];
      report("flow tables", `those in a flow table: ${errorText(error)}`);
    }
    state.isRunning = false;
  };

  return {
    add(gone: readonly GoneEndpoint[]): void {
      const pairs = gone.flatMap(({ frontends, ...rest }) => frontends.map((frontend) => ({ ...rest, frontend })));
      state.waiting = [...state.waiting, ...pairs];
      if (!state.isRunning) void run();
    },
    /** Interrupts the deletion if it is at one of the endpoints. */
    async stopAt(endpoints: readonly string[]): Promise<void> {
      if (state.current !== undefined && endpoints.includes(state.current.endpoint)) await state.current.stop();
    },
  };
}

/** It takes milliseconds, and a change may wait for it. */
const FLOW_TABLES_TIMEOUT_MS = 10_000;

/** Whether the host has a flow table, whose connections skip most hooks. */
async function hasFlowTable(runner: Runner): Promise<boolean> {
  const call = { tool: "nft", args: ["list", "flowtables"], timeoutMs: FLOW_TABLES_TIMEOUT_MS };
  const { stdout } = await runner.run(call);
  return /^\s*flowtable /m.test(stdout);
}
