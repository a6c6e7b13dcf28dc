import type { ServicePortKey, SyncProblem } from "../../core/model/mod.ts";
import type { Logger } from "../../platform/mod.ts";
import type { UdpFrontend } from "../host/mod.ts";
import { findRefused } from "../reconcile/mod.ts";
import { failureText } from "../tools/mod.ts";
import { restoreInputs } from "./batches.ts";
import { type Table, TABLES } from "./chain_names.ts";
import type { Jump, Layout } from "./layout.ts";
import { type ChainUpdate, failedLines, isHostFailure, lineOf, type RestoreInput } from "./restore.ts";
import type { ChainsByTable, WantedChains } from "./wanted_chains.ts";
import { EMPTY_CHAIN, type HeldChain, type KernelState, readKernel, UNKNOWN_CHAIN } from "./shadow.ts";
import { createSpellings } from "./spellings.ts";
import type { Flavour, IptablesTools } from "./tools.ts";
import { udpFrontendOf } from "./udp_frontends.ts";

/** Figures of one reconciliation, for metrics (see SyncResult). */
export interface ReconcileFigures {
  chainsWritten: number;
  chainsDeleted: number;
  rulesLast: Record<Table, number>;
  restores: number;
  restoreFailures: number;
  driftedChains: number;
}

/** Brings the kernel to what a ruleset wants, and knows what is still to be done. */
export interface Reconciler {
  /** These chains may differ from what the kernel holds. */
  touch(chains: ChainsByTable): void;
  /** These service ports are about to change: whether the kernel refused them does not matter any more. */
  forgetRefused(keys: Iterable<ServicePortKey>): void;
  /** What the kernel refused is tried again at the next run. */
  retryRefused(): void;
  /** Whether the kernel has no chain of any service, kube-proxy's included. Throws where it cannot be read. */
  isBlank(): Promise<boolean>;
  /** Writes what is touched and differs. Throws where the kernel could not be brought to the ruleset. */
  run(): Promise<void>;
  /** Looks at the kernel anew and repairs what differs from the ruleset. Throws as `run` does. */
  compareAndRun(): Promise<void>;
  /** The service ports that the kernel refuses. */
  problems(): SyncProblem[];
  /** Why the kernel refuses a service port, where it does. */
  problemOf(key: ServicePortKey): SyncProblem | undefined;
  /** How many rules the kernel holds now, by table. */
  rules(): Readonly<Record<Table, number>>;
  /** The figures since this was last asked. */
  takeFigures(): ReconcileFigures;
  /** The UDP frontends that the kernel led to services at the first look; empty when asked again. */
  takeEarlierUdpFrontends(): ReadonlySet<UdpFrontend>;
}

/** How many restores one run may spend on finding what the kernel refuses. */
const SEARCH_LIMIT = 100;

/** What the reconciler works with. */
export interface ReconcilerOptions {
  readonly layout: Layout;
  readonly ruleset: WantedChains;
  readonly tools: IptablesTools;
  readonly flavour: Flavour;
  readonly logger: Logger;
}

/** The kernel's restore did not go through. */
class RestoreError extends Error {
  override readonly name = "RestoreError";
}

/** A reconciler that has not looked at the kernel yet. */
export function createReconciler(options: ReconcilerOptions): Reconciler {
  const { layout, ruleset, tools, logger } = options;
  const dirty: Record<Table, Set<string>> = { filter: new Set(), nat: new Set() };
  const refused = new Map<ServicePortKey, SyncProblem>();
  let kernel: KernelState | undefined;
  let missingJumps = layout.jumps.slice();
  let surplusJumps: Jump[] = [];
  // Parts of an input may be in effect although the tool failed, and a jump must not be put there twice.
  let jumpsInDoubt = false;
  let figures = noFigures();
  const budget = { left: SEARCH_LIMIT };
  const spellings = createSpellings();
  let earlierFrontends: Set<UdpFrontend> | undefined;

  const touch = (chains: ChainsByTable) => {
    for (const table of TABLES) for (const chain of chains[table]) dirty[table].add(chain);
  };

  /** Reads the kernel; the first time also who is served there. */
  async function read(): Promise<KernelState> {
    if (earlierFrontends) return await readKernel(tools, layout);
    const found = new Set<UdpFrontend>();
    const state = await readKernel(tools, layout, (rule) => {
      const frontend = udpFrontendOf(rule);
      if (frontend !== undefined) found.add(frontend);
    });
    earlierFrontends = found;
    return state;
  }

  async function look(): Promise<KernelState> {
    const state = await read();
    missingJumps = layout.jumps.filter((jump) => !state.jumps.has(jump));
    surplusJumps = [...state.jumps].flatMap(([jump, count]) => Array.from({ length: count - 1 }, () => jump));
    jumpsInDoubt = false;
    return state;
  }

  /** Chains of services that nobody wants any more: an earlier run's, or kube-proxy's. */
  function touchUnwanted(state: KernelState): void {
    for (const table of TABLES) {
      for (const chain of state.chains[table].names()) if (!ruleset.has(table, chain)) dirty[table].add(chain);
    }
  }

  async function restore(input: RestoreInput): Promise<string | undefined> {
    figures.restores++;
    // A tool that is killed leaves it open whether its input is in effect.
    for (const update of input.updates) kernel!.chains[update.table].set(update.chain, UNKNOWN_CHAIN);
    const movesJumps = input.jumps.length > 0 || (input.surplusJumps?.length ?? 0) > 0;
    if (movesJumps) jumpsInDoubt = true;
    const result = await tools.restore(input);
    if (result.exitCode !== 0) {
      figures.restoreFailures++;
      // A chain that cannot go is one that another refers to: what that one holds is not what it is taken for.
      if (input.updates.some(({ action }) => action === "delete")) spellings.forget();
      if (isHostFailure(result)) throw new RestoreError(failureText("iptables-restore", result));
      return failureText("iptables-restore", result);
    }
    figures.rulesLast = { filter: 0, nat: 0 };
    for (const update of input.updates) {
      kernel!.chains[update.table].set(update.chain, heldAfter(update));
      if (update.action === "write") figures.rulesLast[update.table] += update.rendered.rules.length;
      if (update.action === "delete") figures.chainsDeleted++;
      else figures.chainsWritten++;
      if (update.action !== "empty") dirty[update.table].delete(update.chain);
    }
    if (movesJumps) {
      missingJumps = [];
      surplusJumps = [];
      jumpsInDoubt = false;
    }
    return undefined;
  }

  /** Who owns what the kernel refuses: by the line that the tool names, or else by the chain, where it is only one. */
  function ownerOf(input: RestoreInput, failure: string): ServicePortKey | undefined {
    for (const number of failedLines(failure)) {
      const owner = lineOf(input, number)?.owner;
      if (owner !== undefined) return owner;
    }
    const [update, ...others] = input.updates;
    return update?.action === "write" && others.length === 0 ? update.rendered.ownerOf(0) : undefined;
  }

  /**
   * Restores some updates of an input that was refused. A single one that is refused without naming a line gets a
   * second chance: a tool that failed for no reason must not cost a service its rules.
   */
  async function attempt(updates: readonly ChainUpdate[]): Promise<string | undefined> {
    const failure = await restore({ updates, jumps: [] });
    const isPlain = failure === undefined || updates.length > 1 || failedLines(failure).length > 0;
    return isPlain ? failure : await restore({ updates, jumps: [] });
  }

  /** Finds a service port that the kernel refuses within an input, restoring on the way what can be restored. */
  async function blame(input: RestoreInput, failure: string): Promise<ServicePortKey | undefined> {
    if (input.updates.length === 1 && failedLines(failure).length === 0) {
      if (await attempt(input.updates) === undefined) return undefined;
    }
    const found = await findRefused(input.updates, failure, {
      attempt,
      culpritOf: (updates, said) => ownerOf(updates === input.updates ? input : { updates, jumps: [] }, said),
      budget,
    });
    if (found === undefined) throw new RestoreError(explain(input, failure));
    return found === "all written" ? undefined : found.culprit;
  }

  /** A failure with the text of the lines that it names. */
  function explain(input: RestoreInput, failure: string): string {
    const lines = failedLines(failure).map((number) => lineOf(input, number)?.text).filter((text) =>
      text !== undefined
    );
    return lines.length > 0 ? `${failure} (${lines.map((text) => `"${text}"`).join(", ")})` : failure;
  }

  /** Leaves out the service port that made the kernel refuse an input, if it was one alone. */
  async function leaveOut(input: RestoreInput, failure: string): Promise<void> {
    const key = await blame(input, failure);
    if (key === undefined) return;
    const servicePort = ruleset.servicePort(key)?.name;
    const message = `the kernel refuses the rules of ${servicePort}, which is left out until it changes or the next ` +
      `comparison with the kernel: ${explain(input, failure)}`;
    logger.error(message, { service: servicePort });
    refused.set(key, { code: "rules-refused", servicePort, message });
    touch(ruleset.exclude(key, true));
  }

  /**
   * Restores inputs in their order, those that do not refer to each other two at a time: the tool reads one while the
   * kernel works on the other. False where a service port had to be left out, and much is to be looked at anew.
   */
  async function restoreAll(all: Iterable<RestoreInput>): Promise<boolean> {
    let running: StartedRestore[] = [];
    const finishFirst = async (): Promise<boolean> => {
      const [first, second] = running;
      const outcome = await first!.outcome;
      running = running.slice(1);
      if (outcome.failure === undefined && outcome.error === undefined) return true;
      await second?.outcome;
      if (outcome.failure === undefined) throw outcome.error;
      await leaveOut(first!.input, outcome.failure);
      return false;
    };
    for (const input of all) {
      const last = running.at(-1);
      const mayJoin = last !== undefined && input.rank !== undefined && input.rank === last.input.rank;
      while (running.length > (mayJoin ? 1 : 0)) if (!await finishFirst()) return false;
      const outcome = restore(input).then((failure) => ({ failure }), (error: unknown) => ({ error }));
      running = [...running, { input, outcome }];
    }
    while (running.length > 0) if (!await finishFirst()) return false;
    return true;
  }

  async function known(): Promise<KernelState> {
    if (kernel) return kernel;
    kernel = await look();
    touchUnwanted(kernel);
    return kernel;
  }

  async function isBlank(): Promise<boolean> {
    const { chains } = await known();
    return TABLES.every((table) => [...chains[table].names()].every((chain) => !layout.isServiceChain(table, chain)));
  }

  async function run(): Promise<void> {
    const kernel = await known();
    budget.left = SEARCH_LIMIT;
    for (let done = false; !done;) {
      if (jumpsInDoubt) await look();
      done = await restoreAll(
        restoreInputs({ ruleset, kernel, dirty, missingJumps, surplusJumps, flavour: options.flavour }),
      );
    }
  }

  /** Looks at the kernel and touches what does not read as it was last written; returns what it reads as. */
  async function findDrift(): Promise<Map<string, HeldChain | undefined>> {
    const before = kernel;
    kernel = await look();
    touchUnwanted(kernel);
    const drift = new Map<string, HeldChain | undefined>();
    for (const table of TABLES) {
      const held = kernel.chains[table];
      for (const chain of ruleset.chains(table)) {
        const written = before?.chains[table].get(chain), reads = held.get(chain);
        if (written && reads && spellings.areSame(chainId(table, chain), written, reads)) {
          held.set(chain, written);
        } else if (!before || reads?.hash !== written?.hash) {
          if (!dirty[table].has(chain)) drift.set(chainId(table, chain), reads);
          dirty[table].add(chain);
        }
      }
    }
    return drift;
  }

  /** A chain that reads after its repair as it read before was hardly changed by anybody: it may be a spelling. */
  async function learnSpellings(drift: ReadonlyMap<string, HeldChain | undefined>): Promise<void> {
    const reading = await look();
    for (const table of TABLES) {
      for (const chain of ruleset.chains(table)) {
        const id = chainId(table, chain), reads = reading.chains[table].get(chain);
        const written = kernel!.chains[table].get(chain);
        if (!written || !reads || reads.hash === written.hash || reads.hash !== drift.get(id)?.hash) continue;
        if (spellings.suspect(id, written, reads)) figures.driftedChains--;
      }
    }
  }

  return {
    touch,
    forgetRefused(keys) {
      if (refused.size > 0) { for (const key of keys) refused.delete(key); }
    },
    retryRefused() {
      for (const key of refused.keys()) touch(ruleset.exclude(key, false));
      refused.clear();
    },
    isBlank,
    run,
    async compareAndRun() {
      const first = kernel === undefined;
      const drift = await findDrift();
      if (!first) figures.driftedChains += drift.size + missingJumps.length + surplusJumps.length;
      await run();
      if (!first && drift.size > 0) await learnSpellings(drift);
    },
    problems: () => [...refused.values()],
    problemOf: (key) => refused.get(key),
    rules: () => ({ filter: kernel?.chains.filter.rules() ?? 0, nat: kernel?.chains.nat.rules() ?? 0 }),
    takeFigures() {
      const taken = figures;
      figures = noFigures();
      return taken;
    },
    takeEarlierUdpFrontends() {
      const taken = earlierFrontends ?? new Set<UdpFrontend>();
      if (earlierFrontends) earlierFrontends = new Set();
      return taken;
    },
  };
}

/** A restore on its way; the outcome never rejects. */
interface StartedRestore {
  readonly input: RestoreInput;
  readonly outcome: Promise<{ readonly failure?: string; readonly error?: unknown }>;
}

const chainId = (table: Table, chain: string) => `${table} ${chain}`;

function heldAfter(update: ChainUpdate): HeldChain | undefined {
  switch (update.action) {
    case "write":
      return { hash: update.hash, rules: update.rendered.rules.length };
    case "empty":
      return EMPTY_CHAIN;
    case "delete":
      return undefined;
  }
}

function noFigures(): ReconcileFigures {
  return {
    chainsWritten: 0,
    chainsDeleted: 0,
    rulesLast: { filter: 0, nat: 0 },
    restores: 0,
    restoreFailures: 0,
    driftedChains: 0,
  };
}
