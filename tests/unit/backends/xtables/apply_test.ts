/** The restores of one write: what goes into each, which overlap, and what a failure means. */
import assert from "node:assert/strict";
import type { ServicePortKey } from "../../../../core/model/mod.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createAccumulator } from "../../../../backends/reconcile/reconciler.ts";
import { createRefusals } from "../../../../backends/reconcile/refusals.ts";
import { createSpellings } from "../../../../backends/reconcile/spellings.ts";
import type { ToolFailure } from "../../../../backends/tools/failure.ts";
import { restoreAll, type RestoreContext } from "../../../../backends/xtables/apply.ts";
import type { Layout } from "../../../../backends/xtables/chains.ts";
import { readKernel } from "../../../../backends/xtables/realized.ts";
import type { IptablesTools, RestoreInput } from "../../../../backends/xtables/tools.ts";
import { settled } from "../../../fakes/clock.ts";

/** A wanted chain of the table nat. */
interface Wanted {
  readonly rules: readonly string[];
  readonly rank?: number;
  /** The service port of each rule; of all if it is one. */
  readonly owner?: ServicePortKey | readonly ServicePortKey[];
}

interface Kernel {
  /** The rules of chains of the table nat. */
  readonly chains?: Readonly<Record<string, readonly string[]>>;
  /** How often the only jump is present; once by default. */
  readonly jumps?: number;
}

const LAYOUT: Layout = {
  jumps: [{ table: "filter", from: "FORWARD", rule: "-j KUBE-FORWARD" }],
  baseChains: { mangle: [], filter: [], nat: [] },
  isServiceChain: (table) => table === "nat",
};
const LOCKED: ToolFailure = { kind: "busy", text: "xtables lock" };
const refused = (text: string): ToolFailure => ({ kind: "refused", text });

type Answer = ToolFailure | undefined | Promise<ToolFailure | undefined>;

/** Everything to be written to a kernel, whose answer to each input is given. */
async function lab(
  wanted: Readonly<Record<string, Wanted>>,
  { chains = {}, jumps = 1 }: Kernel,
  answer: (input: RestoreInput, number: number) => Answer = () => undefined,
  more: Partial<RestoreContext> & { readonly isFresh?: boolean } = {},
) {
  const inputs: RestoreInput[] = [];
  const tools: IptablesTools = {
    keepsRules: false,
    restore: async (input) => await answer(input as RestoreInput, inputs.push(input as RestoreInput)),
    save({ onChain, onRule }) {
      for (let i = 0; i < jumps; i++) onRule("filter", "FORWARD", "-j KUBE-FORWARD");
      for (const chain of Object.keys(chains)) onChain("nat", chain);
      for (const [chain, rules] of Object.entries(chains)) for (const rule of rules) onRule("nat", chain, rule);
      return Promise.resolve();
    },
    list: () => Promise.reject(new Error("unexpected list")),
    flavour: () => Promise.resolve("nf_tables"),
  };
  const refusals = createRefusals<ServicePortKey>(silentLogger);
  const context: RestoreContext = {
    layout: LAYOUT,
    ruleset: {
      exclude: () => ({}),
      render(_, chain) {
        const { rules, owner } = wanted[chain]!;
        return { rules, jumps: 0, ownerOf: (rule) => typeof owner === "object" ? owner[rule] : owner };
      },
      has: (_, chain) => chain in wanted,
      chains: () => Object.keys(wanted),
      rank: (_, chain) => wanted[chain]!.rank ?? 0,
      servicePort: () => undefined,
    },
    tools,
    flavour: "nf_tables",
    spellings: createSpellings(),
    logger: silentLogger,
    refusals,
    counts: createAccumulator(() => ({
      ...{ chains_written: 0, chains_deleted: 0, iptables_rules_last_filter: 0, iptables_rules_last_nat: 0 },
      ...{ restores: 0, restore_failures: 0 },
    })),
    dirty: { mangle: new Set(), filter: new Set(), nat: new Set([...Object.keys(chains), ...Object.keys(wanted)]) },
    touch() {},
    ...more,
  };
  const realized = await readKernel(tools, LAYOUT);
  const run = { isFresh: more.isFresh ?? true, isComparison: false, searchBudget: { left: 100 } };
  return {
    realized,
    inputs,
    dirty: context.dirty.nat,
    refusedKeys: () => refusals.takeAll(),
    counts: context.counts.value,
    /** The chains of each input, with what happens to each. */
    written: () => inputs.map(({ updates }) => updates.map(({ action, chain }) => `${action} ${chain}`).join(", ")),
    restore: () => restoreAll({ ...context, realized, run }),
  };
}

const rules = (count: number) => Array.from({ length: count }, (_, i) => `-j R${i}`);

Deno.test("only what differs is written, and nothing stays dirty", async () => {
  const { dirty, written, counts, realized, restore } = await lab(
    { SAME: { rules: ["-j A"] }, NEW: { rules: rules(3) }, CHANGED: { rules: ["-j B"] } },
    { chains: { SAME: ["-j A"], CHANGED: ["-j A"], OLD: ["-j A"] } },
  );
  dirty.add("GONE");
  assert.equal(await restore(), "written");
  assert.deepEqual(written(), ["write CHANGED, write NEW, delete OLD"]);
  assert.deepEqual([...dirty], []);
  assert.deepEqual([...realized.chains.nat.names()].sort(), ["CHANGED", "NEW", "SAME"]);
  const { chains_written, chains_deleted, iptables_rules_last_nat } = counts;
  assert.deepEqual([chains_written, chains_deleted, iptables_rules_last_nat], [2, 1, 4]);
});

Deno.test("an input of iptables-nft has at most 25,000 rules, one of iptables-legacy has all", async () => {
  const wanted = Object.fromEntries(["A", "B", "C", "D"].map((name) => [name, { rules: rules(10_000) }]));
  for (
    const [flavour, inputs] of [
      ["nf_tables", ["write A, write B", "write C, write D"]],
      ["legacy", ["write A, write B, write C, write D"]],
    ] as const
  ) {
    const { written, counts, restore } = await lab(wanted, {}, undefined, { flavour });
    await restore();
    assert.deepEqual(written(), inputs);
    assert.equal(counts.iptables_rules_last_nat, flavour === "legacy" ? 40_000 : 20_000, "of the last restore");
  }
});

/** The chains of a state by rank and number of rules, and how many of its inputs are written at the same time. */
const ORDERS = [
  { chains: [[0, 9_000], [1, 16_000], [2, 16_000]], atOnce: 1 },
  { chains: [[0, 9_000], [1, 16_000], [2, 16_000], [2, 16_000]], atOnce: 1 },
  { chains: [[0, 9_000], [1, 16_000], [1, 16_000], [1, 16_000]], atOnce: 1 },
  { chains: [[0, 16_000], [0, 10_000], [1, 15_000], [1, 16_000]], atOnce: 1 },
  { chains: [[0, 9_000], [0, 16_000], [0, 16_000], [0, 16_000]], atOnce: 2 },
] as const;

Deno.test("an input that may refer to another is written after it; two of one rank are written at the same time", async () => {
  for (const { chains, atOnce } of ORDERS) {
    const first = Promise.withResolvers<undefined>();
    const wanted = Object.fromEntries(chains.map(([rank, count], i) => [`C${i}`, { rules: rules(count), rank }]));
    const { inputs, restore } = await lab(wanted, {}, (_, number) => number === 1 ? first.promise : undefined);
    const outcome = restore();
    await settled();
    assert.equal(inputs.length, atOnce, JSON.stringify(chains));
    first.resolve(undefined);
    assert.equal(await outcome, "written");
    assert.ok(inputs.length >= 2);
  }
});

Deno.test("a write that fails ends when no restore is running any longer", async () => {
  const second = Promise.withResolvers<undefined>();
  const wanted = Object.fromEntries(["A", "B", "C"].map((name) => [name, { rules: rules(20_000) }]));
  const { inputs, restore } = await lab(wanted, {}, (_, number) => number === 1 ? LOCKED : second.promise);
  let hasEnded = false;
  const ended = assert.rejects(restore(), /xtables lock/).finally(() => hasEnded = true);
  await settled();
  assert.deepEqual([inputs.length, hasEnded], [2, false]);
  second.resolve(undefined);
  await ended;
  assert.equal(inputs.length, 2);
});

Deno.test("what surrounds a restore learns the chains with their rules before, and whether the kernel has taken it", async () => {
  for (const failure of [undefined, refused("no")]) {
    const seen: unknown[] = [];
    const { restore } = await lab({ A: { rules: ["-j B"] } }, { chains: { A: rules(2) } }, () => failure, {
      isFresh: false,
      async aroundRestore(chains, restore) {
        const isTaken = await restore();
        seen.push(...chains, isTaken);
        return isTaken;
      },
    });
    await restore();
    assert.deepEqual(seen, [{ table: "nat", chain: "A", rules: 2 }, failure === undefined]);
  }
});

Deno.test("after a restore that moves jumps they are known, or unknown if it fails", async () => {
  for (const jumps of [0, 2]) {
    for (const failure of [undefined, LOCKED]) {
      const { realized, inputs, restore } = await lab({}, { jumps }, () => failure);
      await restore().catch(() => {});
      const { jumps: missing = [], surplusJumps = [] } = inputs[0]!;
      assert.deepEqual([missing.length, surplusJumps.length], jumps === 0 ? [1, 0] : [0, 1]);
      assert.deepEqual(realized.jumps && [...realized.jumps.values()], failure ? undefined : [1]);
    }
  }
});

/** Service ports with a chain each. */
const PORTS: Readonly<Record<string, Wanted>> = {
  A: { rules: ["-j ONE"], owner: "a|tcp" },
  B: { rules: ["-j TWO"], owner: "b|tcp" },
  C: { rules: ["-j THREE"], owner: "c|tcp" },
  D: { rules: ["-j FOUR"], owner: "d|tcp" },
};
const has = ({ updates }: RestoreInput, name: string) => updates.some(({ chain }) => chain === name);

Deno.test("a refused input without a line number is bisected, and a chain is blamed if it is refused twice alone", async () => {
  const always = await lab(PORTS, {}, (input) => has(input, "B") ? refused("no") : undefined);
  assert.equal(await always.restore(), "incomplete");
  assert.deepEqual(always.refusedKeys(), ["b|tcp"]);
  assert.deepEqual(always.inputs.map(({ updates }) => updates.map(({ chain }) => chain).join("")), [
    ...["ABCD", "AB", "A", "B", "B"],
  ]);
  let refusals = 2;
  const twice = await lab(
    { A: PORTS.A!, B: PORTS.B! },
    {},
    (input) => has(input, "B") && refusals-- > 0 ? refused("no") : undefined,
  );
  assert.equal(await twice.restore(), "incomplete");
  assert.deepEqual([twice.refusedKeys(), twice.inputs.length], [[], 4], "it was refused once alone");
  const named = await lab(
    { A: PORTS.A!, B: PORTS.B! },
    {},
    (input) => has(input, "A") ? refused(has(input, "B") ? "no" : "line 3 failed") : undefined,
  );
  await named.restore();
  assert.deepEqual([named.refusedKeys(), named.inputs.length], [["a|tcp"], 2], "a line that is named is proof");
});

Deno.test("a line number blames the owner of that line, wherever the input's other parts move it", async () => {
  // *filter, -I, COMMIT, *nat, four chains, then the rules of A and B.
  const { restore, inputs, refusedKeys } = await lab(PORTS, { jumps: 0 }, () => refused("line 10 failed"));
  assert.equal(await restore(), "incomplete");
  assert.deepEqual([refusedKeys(), inputs.length], [["b|tcp"], 1]);
  const only = await lab({ A: PORTS.A! }, {}, () => refused("line 99 failed"));
  await only.restore();
  assert.deepEqual([only.refusedKeys(), only.inputs.length], [["a|tcp"], 1], "a line beyond the input of one chain");
});

Deno.test("a chain of several service ports, and one that is missing in a kernel just read, are no service port's fault", async () => {
  const shared = await lab({ A: { rules: rules(2), owner: ["a|tcp", "b|tcp"] } }, {}, () => refused("no"));
  await assert.rejects(shared.restore(), /no/);
  assert.deepEqual(shared.refusedKeys(), []);
  const absent: ToolFailure = { kind: "absent", text: "Chain 'KUBE-SVC-A' does not exist, line 3" };
  const missing = await lab({ A: PORTS.A! }, {}, () => absent);
  await assert.rejects(missing.restore(), /does not exist/);
  assert.deepEqual([missing.refusedKeys(), missing.inputs.length], [[], 1]);
  const earlier = await lab({ A: PORTS.A! }, {}, () => absent, { isFresh: false });
  assert.equal(await earlier.restore(), "uncertain");
});
