import type { ServicePortKey } from "../../core/model/mod.ts";
import { type UdpFrontend, udpFrontend } from "../host/mod.ts";
import {
  createAccumulator,
  createReconciler,
  createRefusals,
  createSpellings,
  type Reconciler,
  type Target,
} from "../reconcile/mod.ts";
import type { RulesetGeneration } from "../tools/mod.ts";
import { NO_COUNTS, restoreAll, type RestoreContext } from "./apply.ts";
import { type ChainsByTable, type Table, TABLES } from "./chains.ts";
import { jumpsToMove, readKernel, type RealizedState } from "./realized.ts";

/** Brings the chains of a layout to the desired ruleset. */
export interface ChainReconciler extends Reconciler<RealizedState, ServicePortKey> {
  /** Marks chains that may differ from the kernel's. */
  touch(chains: ChainsByTable): void;
  /** Ends the refusals of service ports that are about to change. */
  forgetRefused(keys: Iterable<ServicePortKey>): void;
  /** Whether the kernel has no chain of any service, kube-proxy's included. Throws if it cannot be read. */
  isBlank(): Promise<boolean>;
  /** The counts since the last call, and the rules in the kernel; `drift_repaired` counts chains and jumps. */
  takeCounts(): typeof NO_COUNTS & Record<"iptables_rules_filter" | "iptables_rules_nat" | "drift_repaired", number>;
}

/** The maximum number of restores that one run may spend on the search for refused changes. */
const SEARCH_LIMIT = 100;

type ReconcilerOptions =
  & Pick<RestoreContext, "layout" | "ruleset" | "tools" | "flavour" | "logger" | "aroundRestore">
  & {
    readonly generation?: RulesetGeneration;
  };

/** A reconciler that has not read the kernel yet. */
export function createChainReconciler(options: ReconcilerOptions): ChainReconciler {
  const { layout, ruleset, tools, logger } = options;
  const refusals = createRefusals<ServicePortKey>(logger);
  const counts = createAccumulator(() => ({ ...NO_COUNTS }));
  const dirty: Record<Table, Set<string>> = { mangle: new Set(), filter: new Set(), nat: new Set() };
  const touch = (chains: ChainsByTable) => {
    for (const table of TABLES) for (const chain of chains[table] ?? []) dirty[table].add(chain);
  };
  const spellings = createSpellings<number>();
  const context: RestoreContext = { ...options, spellings, refusals, counts, dirty, touch };

  const target: Target<RealizedState, ServicePortKey> = {
    async list(before, isFirst) {
      const udpFrontends = new Set<UdpFrontend>();
      const onRule = isFirst ? (rule: string) => noteUdpFrontend(rule, udpFrontends) : undefined;
      const realized = await readKernel(tools, layout, onRule);
      touchSurplus(realized, context);
      const drifted = countDrift(before, realized, context);
      const { missing, surplus } = jumpsToMove(realized, layout);
      // After a restore of jumps that failed, they are where it has left them.
      const moved = before?.jumps === undefined ? 0 : missing.length + surplus.length;
      return { realized, drifted: drifted + moved, udpFrontends };
    },
    async write(realized, run) {
      // A jump must not be inserted twice.
      realized.jumps ??= (await readKernel(tools, layout)).jumps;
      return await restoreAll({ ...context, realized, run });
    },
    retry(keys) {
      for (const key of keys) touch(ruleset.exclude(key, false));
    },
    async confirm() {
      if (!spellings.areInQuestion()) return 0;
      const { chains } = await readKernel(tools, layout);
      return spellings.confirm((id) => {
        const [table, chain] = id.split(" ") as [Table, string];
        return chains[table].get(chain)?.hash;
      });
    },
  };
  const reconciler = createReconciler({ target, refusals, searchLimit: SEARCH_LIMIT, generation: options.generation });
  return {
    ...reconciler,
    touch,
    forgetRefused: refusals.forget,
    async isBlank() {
      const { chains } = await reconciler.known();
      return TABLES.every((table) => [...chains[table].names()].every((chain) => !layout.isServiceChain(table, chain)));
    },
    takeCounts() {
      const chains = reconciler.realized()?.chains;
      return {
        ...counts.take(),
        iptables_rules_filter: chains?.filter.rules() ?? 0,
        iptables_rules_nat: chains?.nat.rules() ?? 0,
        drift_repaired: reconciler.takeDrifted(),
      };
    },
  };
}

/**
 * A rule that sends UDP packets to a service or refuses them there, as iptables-save prints it. It has no source, and one
 * destination port; kube-proxy's rules have the same form. The rule of a node port has no destination, or a prefix of the
 * node's addresses.
 */
const UDP_FRONTEND_RULE = /^(?:-d (?:(\S+)\/(?:32|128)|\S+) )?-p udp .*--dport (\d+) -j /;

function noteUdpFrontend(rule: string, frontends: Set<UdpFrontend>): void {
  const match = UDP_FRONTEND_RULE.exec(rule);
  if (match) frontends.add(udpFrontend(match[1], Number(match[2])));
}

/** Marks unwanted service chains, left by an earlier run or by kube-proxy. */
function touchSurplus(realized: RealizedState, { ruleset, dirty }: RestoreContext): void {
  for (const table of TABLES) {
    for (const chain of realized.chains[table].names()) if (!ruleset.has(table, chain)) dirty[table].add(chain);
  }
}

/** Marks wanted chains that differ from how they were written; returns how many of them had no pending change. */
function countDrift(
  before: RealizedState | undefined,
  realized: RealizedState,
  { ruleset, dirty, spellings }: RestoreContext,
): number {
  let count = 0;
  spellings.begin();
  const compare = (table: Table, chain: string) => {
    const written = before?.chains[table].get(chain), reads = realized.chains[table].get(chain);
    const id = `${table} ${chain}`;
    if (before && written?.hash === reads?.hash) return spellings.forget(id);
    if (written && reads && spellings.asWritten(id, reads.hash) === written.hash) {
      return realized.chains[table].set(chain, written);
    }
    if (before && !dirty[table].has(chain)) {
      count++;
      if (written && reads && written.rules === reads.rules) spellings.question(id, written.hash, reads.hash);
      else spellings.forget(id);
    }
    dirty[table].add(chain);
  };
  for (const table of TABLES) for (const chain of ruleset.chains(table)) compare(table, chain);
  return count;
}
