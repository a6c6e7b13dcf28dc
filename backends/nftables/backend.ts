import type { FamilySettings, RulePart, ServicePortKey } from "../../core/model/mod.ts";
import {
  type Backend,
  type BackendOptions,
  createReaderOnDemand,
  type HostQuestion,
  NOTHING_DONE,
  soonest,
  type SyncResult,
  UnsupportedHostError,
} from "../contract/mod.ts";
import { createConntrackCleaner, createUnansweredCleaner } from "../host/mod.ts";
import {
  createNftSession,
  failureOf,
  isLackOfFeature,
  repeatingRunner,
  ToolMissingError,
  TOOLS,
  ToolTooOldError,
  tooOld,
} from "../tools/mod.ts";
import { ATTEMPTS, attemptsIn } from "./counters.ts";
import { contributionOf, createDesired, type Desired, sharedItem } from "./desired.ts";
import type { NftablesCount } from "./mode.ts";
import { removeOwnTables } from "./other_proxies.ts";
import { createTableReconciler } from "./reconcile.ts";
import type { ConnectionCounter } from "./open_connections.ts";
import { declaredSets, kindOfSet } from "./sets.ts";
import { CONNECTIONS_TABLE, type Dialect, DIALECTS, KUBE_PROXY_TABLE, TABLE } from "./table.ts";
import { createNftTools, elementsOf } from "./tools.ts";
import { chainLines, elementText, type Item } from "./transaction.ts";

/** The nftables backend of one family. */
export function createNftablesBackend(options: BackendOptions): Backend<NftablesCount> {
  const { family, runner, generation, clock, logger } = options, dialect = DIALECTS[family];
  const tools = createNftTools(family, runner, createNftSession({ runner, clock }));
  // Apart from the one for transactions, which would wait for long listings.
  const readings = createNftSession({ runner, clock });
  const looks = createNftSession({ runner, clock, args: ["-a"] });
  const conntrack = createConntrackCleaner(options);
  const unanswered = createUnansweredCleaner(options);
  const desired = createDesired();
  const reconciler = createTableReconciler({ desired, tools, dialect, looks, generation, clock, logger });
  const traffic = createReaderOnDemand(async () => {
    const { createTrafficReader } = await import("./traffic_reader.ts");
    return createTrafficReader(desired, tools, runner, clock);
  }, logger);

  let connections: ConnectionCounter | undefined;
  const loadConnections = async () => {
    const { createConnectionCounter } = await import("./open_connections.ts");
    const parts = { desired, dialect, tools, readings, family, runner, clock, logger };
    return connections ??= createConnectionCounter(parts);
  };
  /** The names of all sets that settings ask for. */
  const setsFor = (settings?: FamilySettings) => [...declaredSets(settings ?? {}, dialect).keys()].join();
  /** Whether the table of an earlier process may still count connections, though no service port asks for it. */
  let mayCountInVain = true;

  /** Starts to remove stale flows and gathers the result of a sync. */
  function finish(): SyncResult<NftablesCount> {
    const unansweredAgainMs = unanswered.clean(), result = conntrack.afterSync(reconciler, desired);
    return { ...result, againAfterMs: soonest(result.againAfterMs, unansweredAgainMs) };
  }

  return {
    async setup() {
      logger.info("nftables is ready", { version: await examineHost(options) });
    },
    async sync(delta) {
      conntrack.noteDelta(desired, delta);
      unanswered.noteDelta(desired, delta);
      const before = desired.settings(), { settings = before } = delta;
      reconciler.touch(desired.apply(delta));
      connections?.noteChange();
      // Only a listing finds out which sets there are.
      if (settings !== before && setsFor(settings) !== setsFor(before)) reconciler.invalidate();
      await traffic.follow(settings);
      if (delta.part === "head") {
        if (await reconciler.isBlank()) await reconciler.run();
        return NOTHING_DONE;
      }
      await reconciler.run();
      return finish();
    },
    async resync(cause) {
      await reconciler.compareAndRun(cause);
      if (mayCountInVain && connections === undefined) await tools.removeTable(CONNECTIONS_TABLE);
      mayCountInVain = false;
      return finish();
    },
    hasEntryRules: reconciler.hasAllChains,
    async cleanup() {
      await remove(ALL_TABLES, options);
      reconciler.invalidate();
    },
    readTraffic: async () => await traffic.current()?.read(),
    openConnections: async () => await (connections ?? await loadConnections()).read(),
    attemptCounts: async () => attemptsIn(await elementsOf(tools, ATTEMPTS, readings) ?? []),
    describe(key) {
      const parts = describeServicePort(desired, dialect, key);
      return parts && { parts, problem: reconciler.problemOf(key)?.message };
    },
  };
}

/** The code of nftables mode, as the registry loads it. */
export const NFTABLES_CODE = {
  create: createNftablesBackend,
  examine: examineHost,
  removeTraces: (options: BackendOptions): Promise<void> => remove(ALL_TABLES, options),
  removeLeftovers: (options: BackendOptions): Promise<void> => remove([KUBE_PROXY_TABLE], options),
  removeOwn: removeOwnTables,
};

/** The tables of Sluice and of kube-proxy's nftables mode. */
const ALL_TABLES = [TABLE, CONNECTIONS_TABLE, KUBE_PROXY_TABLE];

/** Deletes tables of the family. Throws if that fails. */
async function remove(names: readonly string[], { family, runner, logger }: BackendOptions): Promise<void> {
  const tools = createNftTools(family, runner);
  for (const name of names) {
    if (await tools.removeTable(name)) logger.info("deleted nftables table", { table: name });
  }
}

/** The parts of the table that a service port uses; undefined for an unknown one. */
function describeServicePort(desired: Desired, dialect: Dialect, key: ServicePortKey): readonly RulePart[] | undefined {
  const port = desired.servicePort(key), settings = desired.settings();
  if (port === undefined || settings === undefined) return undefined;
  const { own, shared } = contributionOf(port, settings, dialect);
  const isElement = ({ list }: Item) => list !== "chain" && list !== "set";
  const ownElements = own.filter(isElement), ownDeclarations = own.filter((item) => !isElement(item));
  const sharedParts = shared.map((id) => sharedItem(id, settings, dialect)).filter(({ list }) => list !== "set");
  const places = Map.groupBy(
    [...ownElements, ...sharedParts, ...ownDeclarations],
    (item) => isElement(item) ? `${kindOfSet(item.list)} ${item.list}` : `${item.list} ${item.key}`,
  );
  const linesOf = (item: Item) =>
    isElement(item) ? [elementText(item)] : chainLines(item.text).slice(item.list === "set" ? 1 : 0);
  return Array.from(places, ([place, items]): RulePart => ({ place, lines: items.flatMap(linesOf) }));
}

/** A transaction that adds a table with everything the mode needs and deletes it again, so that it never takes effect. */
function* trial(ip: string): Generator<string> {
  const table = `${ip} sluice-trial`;
  const endpoints = `typeof ${ip} daddr . tcp dport . numgen random mod 65536 : ${ip} daddr . tcp dport`;
  yield `add table ${table}\n`;
  yield `add set ${table} hairpins { typeof ${ip} saddr . ${ip} daddr; }\n`;
  yield `add map ${table} tcp-endpoints { ${endpoints}; }\n`;
  yield `add chain ${table} pick\n`;
  yield `add chain ${table} nat { type nat hook postrouting priority srcnat; policy accept; }\n`;
  yield `add rule ${table} pick dnat ${ip} to ${ip} daddr . tcp dport . numgen random mod 3 map @tcp-endpoints\n`;
  yield `add rule ${table} nat ct status dnat ${ip} saddr . ${ip} daddr @hairpins masquerade fully-random\n`;
  yield `delete table ${table}\n`;
}

/**
 * Checks whether this host's nft and kernel support the mode.
 * @returns the version of nft
 * @throws {UnsupportedHostError} if they lack a feature
 * @throws {Error} if the trial failed for another reason
 */
async function examineHost({ family, runner }: HostQuestion): Promise<string> {
  try {
    const repeating = repeatingRunner(runner);
    const { stdout } = await repeating.run({ tool: "nft", args: ["--version"] });
    const tried = await repeating.run({ tool: "nft", args: ["-f", "-"], stdin: [...trial(DIALECTS[family].ip)] });
    const failure = failureOf("nft", tried);
    if (!failure) return stdout.trim();
    if (failure.kind === "forbidden") {
      throw new Error(`${failure.text}; nftables mode needs the capability CAP_NET_ADMIN`);
    }
    const old = tooOld(TOOLS.nft, stdout);
    if (old !== undefined) throw new ToolTooOldError(old);
    if (!isLackOfFeature(failure)) throw new Error(`cannot test nft for ${family}: ${failure.text}`);
    throw new UnsupportedHostError(
      `nftables mode for ${family} needs Linux 5.13 or newer with nf_tables, and this host (${stdout.trim()}) lacks ` +
        `a feature of it: ${failure.text}; use a newer system, or set --proxy-mode iptables`,
    );
  } catch (error) {
    if (!(error instanceof ToolMissingError || error instanceof ToolTooOldError)) throw error;
    const message = `${error.message}; install a current nftables, or set --proxy-mode iptables`;
    throw new UnsupportedHostError(message, { cause: error });
  }
}
