/**
 * Resets established connections to deleted endpoints at their next packet. These endpoints are in a set of the table, with a
 * timeout. The chains that look packets up in it exist only while it has elements.
 *
 * The reconciler declares the set, but leaves its elements and the chains alone; a restarted proxy takes them over.
 */
import type { FamilyDelta, FamilySettings } from "../../core/model/mod.ts";
import type { Desired } from "./desired.ts";
import { type Dialect, durationText, endpointElement, TABLE, type TrafficSetName } from "./table.ts";
import { chainsInTable, type NftTools } from "./tools.ts";

const GONE = "gone-endpoints" satisfies TrafficSetName;

/** The chains and the hooks at which the kernel calls them: where clients' packets pass on their way to other hosts. */
const CHAINS: Readonly<Record<string, string>> = {
  "gone-forward": "type filter hook forward priority filter; policy accept;",
  "gone-output": "type filter hook output priority filter; policy accept;",
};

type Resetting = Pick<FamilySettings, "resetsGone" | "goneTimeoutMs">;

/** The set of endpoints that are gone; none unless their connections are reset. */
export function goneSets(
  { resetsGone, goneTimeoutMs = 0 }: Resetting,
  { ip }: Dialect,
): (readonly [TrafficSetName, string])[] {
  if (!resetsGone) return [];
  const timeout = `timeout ${durationText(Math.floor(goneTimeoutMs / 1000))}`;
  const lines = ["set", `typeof ${ip} daddr . tcp dport`, "size 65536", "flags dynamic,timeout", "counter", timeout];
  return [[GONE, lines.join("\n")]];
}

/** Whether a chain looks up endpoints that are gone, and the settings ask for that. */
export function isGoneChain(name: string, { resetsGone }: Resetting): boolean {
  return resetsGone === true && Object.hasOwn(CHAINS, name);
}

/** Keeps the set and its chains. */
interface GoneEndpoints {
  /** Notes a delta before it is written: takes endpoints that are used again out of the set. Throws if that fails. */
  before(delta: FamilyDelta): Promise<void>;
  /** Adds the noted endpoints after a successful sync. Throws if that fails; the next call repeats it. */
  after(): Promise<void>;
  /** Reads the set: notes elements that have expired, and removes the chains after the last one. */
  compare(): Promise<void>;
  /** Forgets what the kernel has. */
  invalidate(): void;
  /** The number of packets answered with a reset since the last call, as of the last reading. */
  takeResets(): number;
}

/** A kernel whose set is not known yet. */
export function createGoneEndpoints(tools: NftTools, desired: Desired, dialect: Dialect): GoneEndpoints {
  const { ip } = dialect, table = `${ip} ${TABLE}`;
  const rule = `ct direction original ct status dnat ${ip} daddr . tcp dport @${GONE} reject with tcp reset`;
  const noted = new Set<string>(), returning = new Set<string>();
  let known: Map<string, number> | undefined;
  let hasChains = false;
  let resets = 0;

  const isOn = () => desired.settings()?.resetsGone === true;
  const read = async () => {
    const listed = await tools.listElements(GONE), before = known;
    known = new Map();
    for (const element of listed ?? []) {
      const match = /^(\S+ \. \d+)\b.*?counter packets (\d+)/.exec(element);
      if (!match) continue;
      const packets = Number(match[2]), earlier = before?.get(match[1]!) ?? (before ? 0 : packets);
      resets += Math.max(0, packets - earlier);
      known.set(match[1]!, packets);
    }
    return known;
  };
  const writeChains = () =>
    Object.entries(CHAINS).flatMap(([name, hook]) => [
      `add chain ${table} ${name} { ${hook} }`,
      `flush chain ${table} ${name}`,
      `add rule ${table} ${name} ${rule}`,
    ]);
  const removeChains = () =>
    Object.entries(CHAINS).flatMap(([name, hook]) => [
      // It may not exist.
      `add chain ${table} ${name} { ${hook} }`,
      `flush chain ${table} ${name}`,
      `delete chain ${table} ${name}`,
    ]);

  return {
    async before({ set, gone = [] }) {
      for (const endpoint of gone) noted.add(endpointElement(endpoint));
      if (!isOn()) return noted.clear();
      const there = known ?? await read();
      for (const port of set) {
        if (port.protocol !== "tcp" || there.size + noted.size === 0) continue;
        for (const endpoint of [...port.clusterEndpoints, ...port.localEndpoints, ...port.unreachableEndpoints ?? []]) {
          const key = endpointElement(endpoint);
          noted.delete(key);
          if (there.delete(key)) returning.add(key);
        }
      }
      if (returning.size === 0) return;
      const elements = `element ${table} ${GONE} { ${[...returning].join(", ")} }`;
      // Some may have expired, and only existing ones can be deleted.
      await tools.write([`add ${elements}`, `delete ${elements}`]);
      returning.clear();
    },
    async after() {
      if (!isOn() || noted.size === 0) return;
      const keys = [...noted];
      await tools.write([
        `add element ${table} ${GONE} { ${keys.join(", ")} }`,
        ...(hasChains ? [] : writeChains()),
      ]);
      hasChains = true;
      for (const key of keys) {
        noted.delete(key);
        known?.set(key, 0);
      }
    },
    async compare() {
      if (!isOn()) return;
      const there = await read(), chains = await chainsInTable(tools, dialect);
      const names = Object.keys(CHAINS), needsChains = there.size > 0;
      hasChains = names.every((name) => chains.has(name));
      if (needsChains && !hasChains) await tools.write(writeChains());
      if (!needsChains && names.some((name) => chains.has(name))) await tools.write(removeChains());
      hasChains = needsChains;
    },
    invalidate() {
      known = undefined;
      hasChains = false;
    },
    takeResets() {
      const taken = resets;
      resets = 0;
      return taken;
    },
  };
}
