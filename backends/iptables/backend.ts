import {
  type Family,
  type PacketCounts,
  type RulePart,
  type ServicePortKey,
  servicePortKey,
} from "../../core/model/mod.ts";
import { waitAtMost } from "../../platform/mod.ts";
import {
  type Backend,
  type BackendOptions,
  createReaderOnDemand,
  type HostQuestion,
  NOTHING_DONE,
  soonest,
  type SyncResult,
} from "../contract/mod.ts";
import { createConntrackCleaner, readSysctl } from "../host/mod.ts";
import { createNftSession, type NftSession, unlessUnchanged } from "../tools/mod.ts";
import {
  type AroundRestore,
  BASE,
  type ChainReconciler,
  createChainReconciler,
  createIptablesTools,
  examineHost,
  type Flavour,
  IPTABLES_LAYOUTS,
  type IptablesTools,
  type Jump,
  type Layout,
  noteRouting,
  packetsOf,
  removeIptablesTraces,
  routeLoopback,
  type Table,
  TABLES,
} from "../xtables/mod.ts";
import { frontendRules, TREES } from "./frontends.ts";
import type { IptablesCount } from "./mode.ts";
import { createRuleset, type Ruleset } from "./ruleset.ts";
import { chainsOf } from "./service_chains.ts";

/** The delay of the next sync while a sysctl that the rules depend on is still unknown. */
const WHILE_SETTING_IS_READ_MS = 1_000;

/** The differences between the modes that share these rules. */
interface RulesVariant {
  readonly layouts: Readonly<Record<Family, Layout>>;
  /** Whether node ports on loopback addresses need a kernel that routes these. */
  readonly routesLoopback: boolean;
  /** The tables whose counters count traffic. */
  readonly countingTables: readonly Table[];
}

const IPTABLES_VARIANT: RulesVariant = {
  layouts: IPTABLES_LAYOUTS,
  routesLoopback: true,
  countingTables: ["filter", "nat"],
};

/** The parts that depend on the host's iptables. */
interface Parts {
  readonly ruleset: Ruleset;
  readonly reconciler: ChainReconciler;
  readonly flavour: Flavour;
  readonly hasJumps: () => Promise<boolean>;
}

/** The iptables backend of one family. */
export function createIptablesBackend(
  options: BackendOptions,
  variant: RulesVariant = IPTABLES_VARIANT,
): Backend<IptablesCount> {
  const { family, runner, clock, logger } = options;
  const tools = createIptablesTools(family, runner);
  const conntrack = createConntrackCleaner(options);
  const looks = createNftSession({ runner, clock });
  const tcpLiberal = createTcpLiberal(options), loopback = createLoopbackRouting(options);
  let parts: Parts | undefined;
  const traffic = createReaderOnDemand(async () => {
    const { createTrafficReader } = await import("./traffic_reader.ts");
    const { ruleset, flavour } = ready();
    return createTrafficReader({ ruleset, tools, clock, tables: variant.countingTables, flavour });
  }, logger);

  function ready(): Parts {
    if (!parts) throw new Error("cannot sync iptables rules before the setup has succeeded");
    return parts;
  }

  /** The steps after the rules are written. Their failures do not fail the sync. */
  function finish({ reconciler, ruleset }: Parts): SyncResult<IptablesCount> {
    loopback.rulesAreWritten();
    const result = conntrack.afterSync(reconciler, ruleset);
    const waitMs = tcpLiberal.isPending() ? WHILE_SETTING_IS_READ_MS : undefined;
    return { ...result, againAfterMs: soonest(result.againAfterMs, waitMs) };
  }

  return {
    async setup() {
      const [host] = await Promise.all([examineHost(family, runner), tcpLiberal.read()]);
      logger.info("iptables is ready", { flavour: host.flavour, hairpin: host.hairpin });
      const layout = variant.layouts[family], { flavour } = host;
      const ruleset = createRuleset({ ...host, tcpLiberal: tcpLiberal.value, layout });
      const aroundRestore: AroundRestore = (chains, restore) =>
        traffic.current()?.aroundRestore(chains, restore) ?? restore();
      const generation = flavour === "nf_tables" ? options.generation : undefined;
      const reconciler = createChainReconciler({ layout, ruleset, tools, flavour, generation, logger, aroundRestore });
      const hasJumps = () => findJumps(layout, tools, family, flavour === "nf_tables" ? looks : undefined);
      parts = { ruleset, reconciler, flavour, hasJumps: unlessUnchanged(generation, hasJumps) };
    },
    async sync(delta) {
      const { ruleset, reconciler } = ready();
      conntrack.noteDelta(ruleset, delta);
      const set = delta.set.map((port) => servicePortKey(port.name, port.protocol));
      reconciler.forgetRefused([...delta.deleted, ...set]);
      reconciler.touch(ruleset.apply(delta));
      if (tcpLiberal.takeChange()) reconciler.touch({ filter: new Set([BASE.forward]) });
      await traffic.follow(ruleset.settings());
      if (delta.settings) loopback.want(variant.routesLoopback && delta.settings.localhostNodePorts);
      if (delta.part === "head") {
        if (await reconciler.isBlank()) await reconciler.run();
        return NOTHING_DONE;
      }
      await reconciler.run();
      return finish(ready());
    },
    async resync(cause) {
      const { reconciler } = ready();
      await reconciler.compareAndRun(cause);
      const result = finish(ready());
      // Another program that deleted rules may have deleted the note for a cleanup, too.
      if ((result.counts.drift_repaired ?? 0) > 0) await loopback.noteAgain();
      return result;
    },
    // It asks for the chains of three tables, each on its own.
    entryCheckMs: 8_000,
    hasEntryRules: async () => await ready().hasJumps(),
    cleanup: () => removeIptablesTraces(options),
    readTraffic: async () => await traffic.current()?.read(),
    packetCounts: () => readPacketCounts(family, tools),
    describe(key) {
      const described = parts && describeServicePort(parts.ruleset, key);
      return described && { parts: described, problem: parts?.reconciler.problemOf(key)?.message };
    },
  };
}

/** The code of iptables mode, as the registry loads it. */
export const IPTABLES_CODE = {
  create: createIptablesBackend,
  examine: ({ family, runner }: HostQuestion): Promise<unknown> => examineHost(family, runner),
  layout: IPTABLES_LAYOUTS.IPv4,
  removeTraces: removeIptablesTraces,
};

/** Routes loopback addresses once the rules, which drop martians, are in effect. */
function createLoopbackRouting(options: BackendOptions) {
  // Whether it is due, and whether this process has made the kernel route them.
  const state = { isDue: false, isOurs: false };
  return {
    want: (isWanted: boolean) => void (state.isDue = isWanted),
    rulesAreWritten(): void {
      if (!state.isDue) return;
      state.isDue = false;
      // Not awaited: a hanging sysctl must not delay a sync.
      routeLoopback(options).then((isOurs) => state.isOurs ||= isOurs);
    },
    /** Writes the note for a cleanup again if there was one. */
    async noteAgain(): Promise<void> {
      if (state.isOurs) await noteRouting(options);
    },
  };
}

/**
 * Whether each table has its first jump: a flush of a table removes all jumps in it.
 * @param looks a long-running nft
 */
async function findJumps(
  { jumps }: Layout,
  tools: IptablesTools,
  family: Family,
  looks: NftSession | undefined,
): Promise<boolean> {
  const ip = family === "IPv4" ? "ip" : "ip6";
  // nft knows only rules of nf_tables, and an absent chain there proves nothing.
  const isJumpSeen = async ({ table, from, rule }: Jump) => {
    const target = rule.slice(rule.lastIndexOf(" ") + 1), isJump = (line: string) => line.endsWith(` jump ${target}`);
    return await looks?.shows(`list chain ${ip} ${table} ${from}`, (lines) => lines.some(isJump)) ?? false;
  };
  for (const table of TABLES) {
    const jump = jumps.find((jump) => jump.table === table);
    if (jump === undefined || await isJumpSeen(jump)) continue;
    const { from, rule } = jump, lines = await rulesOf(tools, table, from);
    if (!lines.some((line) => line.replace(/ -c \d+ \d+/, "") === `-A ${from} ${rule}`)) return false;
  }
  return true;
}

/** Describes the rules of a service port in the order in which packets traverse them; undefined if the ruleset lacks it. */
function describeServicePort(ruleset: Ruleset, key: ServicePortKey): readonly RulePart[] | undefined {
  const port = ruleset.servicePort(key);
  if (port === undefined) return undefined;
  const dispatch = Map.groupBy(
    frontendRules(port, key),
    ({ tree, place }) => `${TREES[tree].table} ${ruleset.dispatchPath(tree, place).join(" > ")}`,
  );
  const own = chainsOf(port).map((chain) => (
    { place: `nat ${chain}`, lines: ruleset.render("nat", chain)?.rules ?? [] }
  ));
  return [
    ...Array.from(dispatch, ([place, rules]) => ({ place, lines: rules.map(({ rule }) => rule()) })),
    ...own.reverse(),
  ];
}

/** Reads the packet counts of the rules in the kernel, which kube-proxy keeps in nfacct objects. Throws as the tools do. */
export async function readPacketCounts(family: Family, tools: IptablesTools): Promise<PacketCounts> {
  const [forwarding, localhost] = await Promise.all([
    rulesOf(tools, "filter", BASE.forward),
    family === "IPv4" ? rulesOf(tools, "nat", BASE.localhostNodePorts) : [],
  ]);
  const isInvalidDrop = (line: string) => line.includes("--ctstate INVALID ") && line.endsWith("-j DROP");
  // Packets for which there is no node port return to the second rule.
  const [seen = 0, returned = 0] = localhost.map(packetsOf);
  return {
    ctStateInvalidDropped: forwarding.filter(isInvalidDrop).reduce((sum, line) => sum + packetsOf(line), 0),
    localhostNodePortsAccepted: Math.max(0, seen - returned),
  };
}

async function rulesOf(tools: IptablesTools, table: Table, chain: string): Promise<string[]> {
  const rules: string[] = [];
  await tools.list(table, chain, (line) => void (line.startsWith("-A ") && rules.push(line)));
  return rules;
}

const TCP_LIBERAL = "net.netfilter.nf_conntrack_tcp_be_liberal";
/** The maximum time that a start waits for the setting. */
const LONGEST_WAIT_MS = 250;

/**
 * The host's setting that makes conntrack accept out-of-window TCP packets, so that INVALID ones need not be dropped.
 * kube-proxy reads it at its start, too.
 */
function createTcpLiberal(options: BackendOptions) {
  const state = { isLiberal: false, isPending: false, isChangeTaken: false };
  const readNow = async () => {
    const value = await readSysctl(options, TCP_LIBERAL);
    state.isPending = false;
    state.isLiberal = value !== undefined && value !== "0";
    if (state.isLiberal) {
      options.logger.info("INVALID packets are not dropped: conntrack is liberal", { setting: TCP_LIBERAL });
    }
  };
  return {
    /** Returns the setting; false until it is known. */
    value: () => state.isLiberal,
    /** Whether the setting has become known since the last call; rules may have been written before. */
    takeChange(): boolean {
      const hasChanged = state.isLiberal && !state.isChangeTaken;
      state.isChangeTaken = state.isLiberal;
      return hasChanged;
    },
    /** Starts reading it; resolves once it is known, or after 250 ms, so that a hanging `sysctl` delays no start. */
    async read(): Promise<void> {
      state.isPending = true;
      await waitAtMost(options.clock, LONGEST_WAIT_MS, readNow());
    },
    isPending: () => state.isPending,
  };
}
