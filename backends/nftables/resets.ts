/**
 * Resets established connections to deleted endpoints at their next packet, in all modes in which conntrack translates their
 * destinations.
 *
 * These endpoints are in the set of a table of its own, each for a limited time. The table exists only while the set has
 * elements, so packets are looked up only then. A restarted proxy takes it over.
 */
import { endpointsIn, type FamilyDelta, type ServicePort } from "../../core/model/mod.ts";
import { errorText } from "../../platform/mod.ts";
import type { Backend, BackendOptions, SyncResult } from "../contract/mod.ts";
import { ifInstalled, ToolMissingError } from "../tools/mod.ts";
import { createOffloadedCleaner } from "./offloaded_connections.ts";
import { DIALECTS, durationText, endpointElement, RESETS_TABLE } from "./table.ts";
import { createNftTools } from "./tools.ts";

const SET = "endpoints";
/** The most elements: comparisons list them, and nft takes 2 s for 100,000. */
const MOST_ELEMENTS = 10_000;
/** The hooks through which the packets of clients pass on their way to other hosts. */
const HOOKS = ["forward", "output"] as const;

/**
 * Wraps a backend. Resets that fail delay no sync; they are a problem until an attempt succeeds.
 * @param isPossible whether the mode has such connections; otherwise, the table of another mode is removed
 */
export function withResets(backend: Backend, options: BackendOptions, isPossible: boolean): Backend {
  const { family, logger, onProblems } = options;
  const resets = createResets(options, isPossible);
  let isMissing = false, isFailing = false;

  const report = (failure?: string) => {
    // A report is a message to the main isolate, and this runs with every change.
    if (failure === undefined && !isFailing) return;
    isFailing = failure !== undefined;
    const problem = (detail: string) => ({ code: "connections-not-reset", subject: family, detail }) as const;
    onProblems?.("resets", failure === undefined ? [] : [problem(failure)]);
  };
  const attempt = async (step: () => Promise<void>): Promise<void> => {
    if (isMissing) return;
    try {
      await step();
      report();
    } catch (error) {
      isMissing = error instanceof ToolMissingError;
      if (!isMissing) report(errorText(error));
      else if (resets.isOn()) logger.info("connections to deleted endpoints are not reset: nft is not installed");
    }
  };
  const withFigure = (result: SyncResult): SyncResult => (
    resets.isOn() ? { ...result, figures: { ...result.figures, connections_reset: resets.takeResets() } } : result
  );

  return {
    ...backend,
    async setup() {
      await backend.setup();
      // So that the first change need not wait for it; it reads the set itself if this fails.
      if (isPossible) await resets.read().catch(() => {});
    },
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
      try {
        await backend.cleanup();
      } finally {
        await ifInstalled(resets.remove());
      }
    },
  };
}

/** The endpoints whose connections are reset, of one family. Each function throws if nft fails; the next call repeats it. */
function createResets({ family, runner, clock, logger, onProblems }: BackendOptions, isPossible: boolean) {
  const { ip, addressType } = DIALECTS[family], table = `${ip} ${RESETS_TABLE}`;
  const tools = createNftTools(family, runner);
  const offloaded = createOffloadedCleaner(family, runner, onProblems);
  const rule = `ct direction original ct status dnat ${ip} daddr . tcp dport @${SET} reject with tcp reset`;
  /** The endpoints to add, by element, and the elements to take out because their endpoints are used again. */
  const leaving = new Map<string, { readonly endpoint: string; readonly leftMs: number }>();
  const returning = new Set<string>();
  /** The elements of the set, and the packets that each has counted; undefined until the set was read. */
  let known: Map<string, number> | undefined;
  /** Whether the table may exist, and whether it may have elements whose endpoints are used again. */
  let exists = true, isStale = false;
  let timeoutMs: number | undefined;
  let resets = 0;

  const read = async () => {
    const elements = await tools.listElements(SET, undefined, RESETS_TABLE);
    exists = elements !== undefined;
    const there = new Map<string, number>();
    for (const element of elements ?? []) {
      const [, key, counted] = /^(\S+ \. \d+)\b.*?counter packets (\d+)/.exec(element) ?? [];
      if (key === undefined) continue;
      const packets = Number(counted), earlier = known ? known.get(key) : packets;
      resets += Math.max(0, packets - (earlier ?? 0));
      // It was to be taken out, but nft reported a success without one; or another program added it.
      if (earlier === undefined) returning.add(key);
      else there.set(key, packets);
    }
    return known = there;
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
    exists = isStale = false;
    returning.clear();
  };
  const write = (changes: readonly string[]) => {
    exists = true;
    return tools.write([...create, ...changes]);
  };
  /** Takes out what is used again. If that cannot be known, the table goes: this ends resets, and harms no connection. */
  const takeOut = async () => {
    if (isStale || timeoutMs === undefined && exists) await remove();
    if (returning.size === 0) return;
    const elements = `element ${table} ${SET} { ${[...returning].join(", ")} }`;
    // Some may have expired, and only existing ones can be deleted.
    await write([`add ${elements}`, `delete ${elements}`]);
    returning.clear();
  };
  const noteUse = async (set: readonly ServicePort[], there: Map<string, number>) => {
    for (const port of set) {
      if (port.protocol !== "tcp" || there.size + leaving.size === 0) continue;
      for (const endpoint of endpointsIn(port)) {
        const key = endpointElement(endpoint);
        leaving.delete(key);
        if (!there.delete(key)) continue;
        returning.add(key);
        await offloaded.keep(endpoint);
      }
    }
  };

  return {
    /** Reads the set that an earlier process has left. */
    read,
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
      for (const endpoint of gone) leaving.set(endpointElement(endpoint), { endpoint, leftMs: clock.monotonic() });
      try {
        await noteUse(set, known ?? await read());
      } catch (error) {
        isStale = true;
        throw error;
      }
      await takeOut();
    },
    /** Adds the endpoints that left, after a sync. */
    async after() {
      await takeOut();
      if (timeoutMs === undefined || leaving.size === 0) return;
      const latestMs = clock.monotonic() - timeoutMs, there = known ?? await read();
      for (const [key, { leftMs }] of leaving) if (leftMs < latestMs) leaving.delete(key);
      const added = [...leaving].slice(0, Math.max(0, MOST_ELEMENTS - there.size));
      if (added.length < leaving.size) {
        logger.warn("too many deleted endpoints: connections to some are not reset", { family, most: MOST_ELEMENTS });
      }
      // If nft fails, it may have added them.
      for (const [key] of added) there.set(key, 0);
      if (added.length > 0) {
        const timeout = durationText(Math.ceil(timeoutMs / 1000));
        const elements = added.map(([key]) => `${key} timeout ${timeout}`).join(", ");
        await write([`add element ${table} ${SET} { ${elements} }`]);
      }
      leaving.clear();
      if (added.length > 0 && await tools.hasFlowTable()) offloaded.clean(added.map(([, { endpoint }]) => endpoint));
    },
    /** Reads the set, takes out what does not belong there, and removes the table after the last element. */
    async compare() {
      if (exists) await read();
      await takeOut();
      if (exists && known?.size === 0) await remove();
    },
    remove,
  };
}
