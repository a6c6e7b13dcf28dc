/**
 * Resets connections of services to dead endpoints at the client's next packet, in all modes in which conntrack translates their
 * destinations.
 *
 * A table of its own has a set of pairs of frontend and endpoint, each for a limited time, and a rule for packets of established
 * connections that neither begin nor end one. It compares the destination before and after the translation, so connections that
 * something else has translated to the same endpoint are left alone. The table exists only while the set may have elements, and
 * not longer than the proxy: one that is found at the start is removed.
 */
import { endpointsIn, type FamilyDelta, RESET_LIFETIME_MS } from "../../core/model/mod.ts";
import { errorText } from "../../platform/mod.ts";
import type { Backend, BackendOptions, SyncResult } from "../contract/mod.ts";
import { deleteFlows, inTurns, listFlows } from "../host/mod.ts";
import { createNftSession, ifInstalled, ToolMissingError } from "../tools/mod.ts";
import { DIALECTS, durationText, endpointElement, RESETS_TABLE } from "./table.ts";
import { createNftTools } from "./tools.ts";

const SET = "connections", COUNTER = "rejected";
/** The longest time from the decision to add an element until the kernel has it, when its lifetime begins. */
const LONGEST_WRITE_MS = 60_000;
/** The most elements that the long-running nft gets, in one line. */
const MOST_IN_SESSION = 1_000;
/** The time after which further deletions of conntrack entries begin with those that have come meanwhile. */
const LONGEST_DELETION_MS = 5_000;
/** The hooks through which the packets of clients pass on their way to other hosts. */
const HOOKS = ["forward", "output"] as const;

interface State {
  /** The endpoints in the set (`address:port`), and the frontends from which their connections come. */
  readonly resets: Map<string, Reset>;
  /** Unknown at the start and after a failure: it may have elements of endpoints that are used again. */
  table: "unknown" | "absent" | "present";
  /** The packets that the table had counted when it was last read, and those that no sync has reported. */
  counted: number;
  unreported: number;
  hasFlowTable: boolean;
  /** The pairs of frontend and endpoint whose conntrack entries are to be deleted, and whether that is under way. */
  offloaded: readonly Offloaded[];
  isDeleting: boolean;
  /** The endpoint of the conntrack entries that are being deleted, or were last. */
  deleting: { readonly endpoint: string; readonly stop: () => Promise<void> } | undefined;
  nft: "used" | "missing" | "reported as missing";
  isStopped: boolean;
}

interface Reset {
  readonly frontends: readonly string[];
  /** When its elements expire, by the monotonic clock. */
  readonly untilMs: number;
}

/** Connections through one frontend to one endpoint, of a service in this namespace. */
interface Offloaded {
  readonly namespace: string;
  readonly endpoint: string;
  readonly frontend: string;
}

type EndpointReset = readonly [endpoint: string, Reset];

/**
 * Adds `resetGone` to a backend. A failure delays no sync. It ends all resets, which harms no connection, and is a problem until
 * the next success.
 * @param isPossible whether the mode has such connections; otherwise, only the table of another mode is removed
 */
export function withResets(backend: Backend, options: BackendOptions, isPossible: boolean): Backend {
  const { family, runner, clock, logger, onProblems } = options;
  const { ip, addressType } = DIALECTS[family], table = `${ip} ${RESETS_TABLE}`;
  const session = createNftSession(options);
  const tools = createNftTools(family, runner), sessionTools = createNftTools(family, runner, session);
  const state: State = {
    ...{ resets: new Map(), table: "unknown", counted: 0, unreported: 0, hasFlowTable: false },
    ...{ offloaded: [], isDeleting: false, deleting: undefined, nft: "used", isStopped: false },
  };
  const { resets } = state;
  const create = [
    `add table ${table}`,
    `add counter ${table} ${COUNTER}`,
    `add set ${table} ${SET} { type ${addressType} . inet_service . ${addressType} . inet_service; ` +
    `timeout ${durationText(RESET_LIFETIME_MS / 1_000)}; }`,
    ...HOOKS.flatMap((hook) => [
      `add chain ${table} ${hook} { type filter hook ${hook} priority filter; policy accept; }`,
      `add rule ${table} ${hook} meta l4proto tcp tcp flags & (fin | syn | rst) == 0 ct state established ` +
      `ct direction original ct status dnat ct original ${ip} daddr . ct original proto-dst . ${ip} daddr . tcp dport ` +
      `@${SET} counter name ${COUNTER} reject with tcp reset`,
    ]),
  ];

  const failing = new Set<string>();
  const report = (scope: string, failure?: string) => {
    // A report is a message to the main isolate.
    if (failure === undefined && !failing.delete(scope)) return;
    if (failure !== undefined) failing.add(scope);
    const problem = (detail: string) => ({ code: "connections-not-reset", subject: family, detail }) as const;
    onProblems?.(scope, failure === undefined ? [] : [problem(failure)]);
  };
  let turn = Promise.resolve();
  /** Runs a step after all earlier ones, and after the removal of an unknown table. Does not throw. */
  const inTurn = (step?: () => Promise<void>): Promise<void> =>
    turn = turn.then(async () => {
      if (state.nft !== "used") return;
      try {
        if (state.table === "unknown") await remove();
        await step?.();
        report("resets");
      } catch (error) {
        resets.clear();
        state.table = "unknown";
        if (!(error instanceof ToolMissingError)) return report("resets", errorText(error));
        state.table = "absent";
        state.nft = "missing";
      }
    });
  const remove = async () => {
    // At the end of the proxy, there is little time to start a process.
    const isRemoved = state.table === "present" && await session.transact([`delete table ${table}`]).catch(() => false);
    if (!isRemoved) await tools.removeTable(RESETS_TABLE);
    state.table = "absent";
    state.counted = 0;
  };
  const removeIfPresent = async () => {
    if (state.table === "present") await remove();
  };
  const write = async (some: readonly EndpointReset[], verbs: readonly string[]) => {
    const elements = some.flatMap(([endpoint, { frontends }]) =>
      frontends.map((frontend) => `${endpointElement(frontend)} . ${endpointElement(endpoint)}`)
    );
    const statements = verbs.map((verb) => `${verb} element ${table} ${SET} { ${elements.join(", ")} }`);
    const { write } = elements.length > MOST_IN_SESSION ? tools : sessionTools;
    await write(state.table === "present" ? statements : [...create, ...statements]);
    state.table = "present";
  };
  const isCurrent = ([endpoint, reset]: EndpointReset) => resets.get(endpoint) === reset;
  const forgetExpired = () => {
    for (const [endpoint, { untilMs }] of resets) if (untilMs <= clock.monotonic()) resets.delete(endpoint);
  };

  /** Takes endpoints that are used again out of the set; undefined if none is. */
  const takeOut = ({ set }: FamilyDelta): Promise<void> | undefined => {
    const used: EndpointReset[] = [];
    for (const port of resets.size > 0 ? set : []) {
      if (port.protocol !== "tcp") continue;
      for (const endpoint of endpointsIn(port)) {
        const reset = resets.get(endpoint);
        if (reset && resets.delete(endpoint)) used.push([endpoint, reset]);
      }
    }
    if (used.length === 0) return state.table === "unknown" ? inTurn() : undefined;
    inTurn(async () => {
      // Changes do not wait for conntrack.
      if (used.some(([endpoint]) => endpoint === state.deleting?.endpoint)) await state.deleting?.stop();
      // Some may have expired, and only existing ones can be deleted.
      if (state.table === "present") await write(used, ["add", "delete"]);
    });
    // If that fails, the table is removed.
    return inTurn();
  };
  const add = async (added: readonly EndpointReset[]) => {
    const current = added.filter(isCurrent), isFirst = state.table === "absent";
    if (current.length === 0) return;
    await write(current, ["add"]);
    if (isFirst) state.hasFlowTable = await tools.hasFlowTable();
  };
  /**
   * Packets of connections in a flow table skip the rule as long as there is a conntrack entry. conntrack reads the whole table for
   * each pair, so only those with connections are deleted, the namespaces in turns.
   */
  const deleteOffloaded = async () => {
    state.isDeleting = true;
    try {
      while (state.offloaded.length > 0) {
        const pairs = state.offloaded.filter(({ endpoint }) => resets.has(endpoint));
        state.offloaded = [];
        const open = await openPairs(pairs);
        const left = inTurns(pairs.filter((one) => open.has(pairID(one))), ({ namespace }) => namespace);
        // New ones have their turn after a limited time.
        const endMs = clock.monotonic() + LONGEST_DELETION_MS;
        while (left.length > 0 && clock.monotonic() < endMs) await deletePair(left.shift()!);
        state.offloaded = [...left, ...state.offloaded];
      }
      report("flow tables");
    } catch (error) {
      state.offloaded = [];
      report("flow tables", `those in a flow table: ${errorText(error)}`);
    }
    state.isDeleting = false;
  };
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
    state.deleting = { endpoint, stop };
    await done;
  };
  const compare = async () => {
    if (state.table !== "present") return;
    const packets = await tools.readCounter(RESETS_TABLE, COUNTER);
    if (packets === undefined) {
      // Another program has removed it.
      resets.clear();
      state.table = "absent";
      return;
    }
    state.unreported += packets - state.counted;
    state.counted = packets;
    forgetExpired();
    if (resets.size === 0) await remove();
    else state.hasFlowTable = await tools.hasFlowTable();
  };
  const withFigure = (result: SyncResult): SyncResult => {
    const { unreported } = state;
    state.unreported = 0;
    return unreported === 0 ? result : { ...result, figures: { ...result.figures, connections_reset: unreported } };
  };

  return {
    ...backend,
    async setup() {
      await Promise.all([backend.setup(), inTurn()]);
    },
    async sync(delta) {
      const taken = takeOut(delta);
      if (taken) await taken;
      return await backend.sync(delta);
    },
    async resync(cause) {
      const result = await backend.resync(cause);
      if (state.table !== "absent") await inTurn(compare);
      return withFigure(result);
    },
    async resetGone(gone) {
      if (!isPossible || state.isStopped) return;
      if (state.nft === "missing") {
        logger.info("connections to deleted endpoints are not reset: nft is not installed");
        state.nft = "reported as missing";
      }
      forgetExpired();
      const untilMs = clock.monotonic() + RESET_LIFETIME_MS + LONGEST_WRITE_MS, added: EndpointReset[] = [];
      for (const { endpoint, frontends } of gone) {
        const earlier = resets.get(endpoint)?.frontends ?? [];
        const reset = { frontends: [...new Set([...earlier, ...frontends])], untilMs };
        resets.set(endpoint, reset);
        added.push([endpoint, reset]);
      }
      await inTurn(() => add(added));
      if (!state.hasFlowTable) return;
      const pairs = gone.flatMap(({ frontends, ...rest }) => frontends.map((frontend) => ({ ...rest, frontend })));
      state.offloaded = [...state.offloaded, ...pairs];
      if (!state.isDeleting) void deleteOffloaded();
    },
    async stop() {
      state.isStopped = true;
      resets.clear();
      // A write that is under way may create the table.
      await inTurn(removeIfPresent);
    },
    async cleanup() {
      try {
        await backend.cleanup();
      } finally {
        resets.clear();
        await turn;
        await ifInstalled(remove());
      }
    },
  };
}
