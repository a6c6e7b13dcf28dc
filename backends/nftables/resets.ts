/**
 * Resets established connections to deleted endpoints at their next packet, in all modes in which conntrack translates their
 * destinations.
 *
 * These endpoints are in the set of a table of its own, each for a limited time. The table exists only while the set has
 * elements, so packets are looked up only then. A restarted proxy takes it over.
 */
import type { FamilyDelta } from "../../core/model/mod.ts";
import { errorText } from "../../platform/mod.ts";
import { deleteConnections } from "../host/mod.ts";
import type { Backend, BackendOptions, SyncResult } from "../contract/mod.ts";
import { DIALECTS, durationText, endpointElement, RESETS_TABLE } from "./table.ts";
import { createNftTools } from "./tools.ts";
import { ifInstalled, ToolMissingError } from "../tools/mod.ts";

const SET = "endpoints";
/** The hooks through which the packets of clients pass on their way to other hosts. */
const HOOKS = ["forward", "output"] as const;

/**
 * Wraps a backend. Resets that fail delay no sync; they are a problem until an attempt succeeds.
 * @param isPossible whether the mode has such connections; otherwise, the table of another mode is removed
 */
export function withResets(backend: Backend, options: BackendOptions, isPossible: boolean): Backend {
  const { family, logger, onProblems } = options;
  const resets = createResets(options, isPossible);
  let isMissing = false;

  const attempt = async (step: () => Promise<void>): Promise<void> => {
    if (isMissing) return;
    try {
      await step();
      onProblems?.("resets", []);
    } catch (error) {
      isMissing = error instanceof ToolMissingError;
      if (isMissing) return logger.info("connections to deleted endpoints are not reset: nft is not installed");
      onProblems?.("resets", [{ code: "connections-not-reset", subject: family, detail: errorText(error) }]);
    }
  };
  const withFigure = (result: SyncResult): SyncResult => (
    resets.isOn() ? { ...result, figures: { ...result.figures, connections_reset: resets.takeResets() } } : result
  );

  return {
    ...backend,
    async sync(delta) {
      await attempt(() => resets.before(delta));
      const result = await backend.sync(delta);
      if (delta.part !== "head") await attempt(resets.after);
      return withFigure(result);
    },
    async resync(cause) {
      const result = await backend.resync(cause);
      await attempt(resets.compare);
      return withFigure(result);
    },
    async cleanup() {
      await backend.cleanup();
      await attempt(resets.remove);
    },
  };
}

/** The endpoints whose connections are reset, of one family. Each function throws if nft fails; the next call repeats it. */
function createResets({ family, runner }: BackendOptions, isPossible: boolean) {
  const dialect = DIALECTS[family], { ip, addressType } = dialect, table = `${ip} ${RESETS_TABLE}`;
  const tools = createNftTools(family, runner);
  const rule = `ct direction original ct status dnat ${ip} daddr . tcp dport @${SET} reject with tcp reset`;
  /** The endpoints to add, by element, and the elements to take out because their endpoints are used again. */
  const leaving = new Map<string, string>(), returning = new Set<string>();
  /** The elements of the set, and the packets that each has counted; undefined while unknown. */
  let known: Map<string, number> | undefined;
  /** Whether the table may exist. */
  let exists = true;
  let timeoutMs: number | undefined;
  let resets = 0;

  const read = async () => {
    const before = known;
    known = new Map();
    const elements = await tools.listElements(SET, undefined, RESETS_TABLE);
    exists = elements !== undefined;
    for (const element of elements ?? []) {
      const match = /^(\S+ \. \d+)\b.*?counter packets (\d+)/.exec(element);
      if (!match) continue;
      const packets = Number(match[2]), earlier = before?.get(match[1]!) ?? (before ? 0 : packets);
      resets += Math.max(0, packets - earlier);
      known.set(match[1]!, packets);
    }
    return known;
  };
  const create = [
    `add table ${table}`,
    `add set ${table} ${SET} { type ${addressType} . inet_service; flags timeout; counter; }`,
    ...HOOKS.flatMap((hook) => [
      `add chain ${table} ${hook} { type filter hook ${hook} priority filter; policy accept; }`,
      `flush chain ${table} ${hook}`,
      `add rule ${table} ${hook} ${rule}`,
    ]),
  ];
  const remove = async () => {
    await tools.removeTable(RESETS_TABLE);
    known = new Map();
    exists = false;
  };
  const write = (changes: readonly string[]) => {
    exists = true;
    return tools.write([...create, ...changes]);
  };
  const takeOut = async () => {
    if (returning.size === 0) return;
    const elements = `element ${table} ${SET} { ${[...returning].join(", ")} }`;
    // Some may have expired, and only existing ones can be deleted.
    await write([`add ${elements}`, `delete ${elements}`]);
    returning.clear();
  };
  /** Has the next packets of these endpoints' connections meet the rules, which send them to an endpoint that refuses them. */
  const leaveFlowTable = async (endpoints: readonly string[]) => {
    const deleted = await ifInstalled(deleteConnections(family, runner, endpoints).then(() => true));
    if (!deleted) {
      throw new Error("connections in a flow table cannot be reset: conntrack is not installed (install it)");
    }
  };

  return {
    isOn: () => timeoutMs !== undefined,
    takeResets() {
      const taken = resets;
      resets = 0;
      return taken;
    },
    /** Notes a delta before it is written, and takes endpoints that are used again out of the set. */
    async before({ settings, set, gone = [] }: FamilyDelta) {
      if (settings) timeoutMs = isPossible && settings.resetsGone ? settings.goneTimeoutMs : undefined;
      if (timeoutMs === undefined) return leaving.clear();
      for (const endpoint of gone) leaving.set(endpointElement(endpoint), endpoint);
      const there = known ?? await read();
      for (const { protocol, clusterEndpoints, localEndpoints, unreachableEndpoints = [] } of set) {
        if (protocol !== "tcp" || there.size + leaving.size === 0) continue;
        for (const endpoint of [...clusterEndpoints, ...localEndpoints, ...unreachableEndpoints]) {
          const key = endpointElement(endpoint);
          leaving.delete(key);
          if (there.delete(key)) returning.add(key);
        }
      }
      await takeOut();
    },
    /** Adds the endpoints that left, after a sync. */
    async after() {
      await takeOut();
      if (timeoutMs === undefined || leaving.size === 0) return;
      const timeout = durationText(Math.ceil(timeoutMs / 1000));
      const elements = [...leaving.keys()].map((key) => `${key} timeout ${timeout}`).join(", ");
      await write([`add element ${table} ${SET} { ${elements} }`]);
      if (await tools.hasFlowTable()) await leaveFlowTable([...leaving.values()]);
      for (const key of leaving.keys()) known?.set(key, 0);
      leaving.clear();
    },
    /** Reads the set, and removes the table after the last element. */
    async compare() {
      await takeOut();
      if (!exists) return;
      if (timeoutMs === undefined || (await read()).size === 0) await remove();
    },
    remove,
  };
}
