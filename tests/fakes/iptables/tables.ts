import { CommandRefused, KernelRefused, ParameterProblem } from "./errors.ts";
import type { Rule } from "./rule.ts";
import { refusedRules } from "./validity.ts";

/** The faked variant of iptables. */
export type Flavour = "nf_tables" | "legacy";

/** A chain in the kernel. */
export interface Chain {
  readonly name: string;
  /** The policy of a built-in chain; undefined for others. */
  policy: string | undefined;
  rules: Rule[];
  /** The number of rules that jump here. */
  references: number;
}

/** The chains of a table by name; built-in ones first, in hook order. */
export type Table = Map<string, Chain>;

/** A family's tables. */
export interface Tables {
  readonly flavour: Flavour;
  /** The existing tables in the order of iptables-save. */
  list(): readonly (readonly [name: string, table: Table])[];
  get(table: string): Table | undefined;
  /** Starts a change of a table and creates it if needed; undefined for an unknown table. */
  begin(table: string): TableChange | undefined;
}

/** An atomic change of a table. Each step gets the line of the input it belongs to. */
export interface TableChange {
  readonly table: Table;
  /** `:CHAIN POLICY`: creates or flushes a chain, or sets the policy of a built-in one. */
  declare(line: number, chain: string, policy: string): void;
  create(line: number, chain: string): void;
  flush(line: number, chain: string | undefined): void;
  remove(line: number, chain: string | undefined): void;
  setPolicy(line: number, chain: string, policy: string): void;
  append(line: number, chain: string, rule: Rule): void;
  /** @param position counted from 1 */
  insert(line: number, chain: string, position: number, rule: Rule): void;
  removeRule(line: number, chain: string, rule: Rule | number): void;
  /** Throws if the chain does not contain the rule. */
  check(chain: string, rule: Rule): void;
  /** Removes everything but the built-in chains, as iptables-restore without --noflush. */
  clear(): void;
  /** Commits the change. If the kernel refuses it, undoes it and returns the refusals by line. */
  commit(): readonly { readonly line: number; readonly refused: KernelRefused }[];
  /** Restores the table's previous state, also after `commit`. */
  undo(): void;
}

/** The built-in chains of the tables, in the order of iptables-save with nf_tables. */
export const BUILT_IN: Readonly<Record<string, readonly string[]>> = {
  raw: ["PREROUTING", "OUTPUT"],
  mangle: ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"],
  filter: ["INPUT", "FORWARD", "OUTPUT"],
  nat: ["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
};

const TABLE_ORDER = Object.keys(BUILT_IN);
const NO_CHAIN = "No chain/target/match by that name";
const NO_RULE = "Bad rule (does a matching rule exist in that chain?)";
const LONGEST_NAME = 28;
const TARGET_NAMES = ["ACCEPT", "DROP", "QUEUE", "RETURN"];

/** Creates an empty set of tables. */
export function createTables(flavour: Flavour): Tables {
  const tables = new Map<string, Table>();
  return {
    flavour,
    list: () =>
      flavour === "legacy"
        ? [...tables].reverse()
        : [...tables].sort(([a], [b]) => TABLE_ORDER.indexOf(a) - TABLE_ORDER.indexOf(b)),
    get: (name) => tables.get(name),
    begin(name) {
      const builtIn = Object.hasOwn(BUILT_IN, name) ? BUILT_IN[name]! : undefined;
      if (!builtIn) return undefined;
      const known = tables.get(name);
      const table = known ?? new Map(builtIn.map((chain) => [chain, newChain(chain, "ACCEPT")]));
      tables.set(name, table);
      // A legacy table exists from its first use, even if the change is undone.
      const undo = known || flavour === "legacy" ? [] : [() => void tables.delete(name)];
      return changeTable(name, table, flavour, undo);
    },
  };
}

function newChain(name: string, policy?: string): Chain {
  return { name, policy, rules: [], references: 0 };
}

function changeTable(name: string, table: Table, flavour: Flavour, undoSteps: (() => void)[]): TableChange {
  const refusals: { line: number; refused: KernelRefused }[] = [];
  const added: { line: number; chain: string; rule: Rule }[] = [];
  const step = (apply: () => void, undo: () => void) => {
    apply();
    undoSteps.push(undo);
  };
  const refuse = (line: number, operation: string, reason: string, what: string) =>
    refusals.push({ line, refused: new KernelRefused(operation, reason, what) });
  const chainOf = (chain: string): Chain => {
    const found = table.get(chain);
    if (!found) throw new CommandRefused(NO_CHAIN);
    return found;
  };
  const countReference = (rule: Rule, by: 1 | -1) => {
    const to = rule.target.action === "jump" ? table.get(rule.target.chain) : undefined;
    if (to) to.references += by;
  };
  const put = (line: number, chain: Chain, index: number, rule: Rule, operation: string) => {
    checkJump(rule, table, flavour);
    const what = `rule in chain ${chain.name}`;
    if (rule.target.action === "jump" && BUILT_IN[name]!.includes(rule.target.chain)) {
      if (flavour === "legacy") throw new CommandRefused(NO_CHAIN);
      return void refuse(line, operation, "No such file or directory", what);
    }
    if (rule.isInvalid || (rule.places.table ?? name) !== name) refuse(line, operation, "Invalid argument", what);
    added.push({ line, chain: chain.name, rule });
    step(() => {
      if (index === chain.rules.length) chain.rules.push(rule);
      else chain.rules.splice(index, 0, rule);
      countReference(rule, 1);
    }, () => {
      if (index === chain.rules.length - 1) chain.rules.pop();
      else chain.rules.splice(index, 1);
      countReference(rule, -1);
    });
  };
  const find = (name: string, rule: Rule): [chain: Chain, index: number] => {
    checkJump(rule, table, flavour);
    const chain = table.get(name);
    const index = chain?.rules.findIndex(({ text }) => text === rule.text) ?? -1;
    if (!chain || index < 0) throw new CommandRefused(NO_RULE);
    return [chain, index];
  };
  const take = (chain: Chain, index: number) => {
    const rule = chain.rules[index]!;
    step(() => {
      chain.rules.splice(index, 1);
      countReference(rule, -1);
    }, () => {
      chain.rules.splice(index, 0, rule);
      countReference(rule, 1);
    });
  };
  const empty = (chain: Chain) => {
    const { rules } = chain;
    if (rules.length === 0) return;
    step(() => {
      chain.rules = [];
      for (const rule of rules) countReference(rule, -1);
    }, () => {
      chain.rules = rules;
      for (const rule of rules) countReference(rule, 1);
    });
  };
  const addChain = (chain: string) => {
    checkChainName(chain, flavour);
    step(() => table.set(chain, newChain(chain)), () => table.delete(chain));
  };
  const drop = (chain: Chain) => step(() => table.delete(chain.name), () => table.set(chain.name, chain));
  const setPolicyOf = (chain: Chain, policy: string) => {
    const before = chain.policy;
    step(() => chain.policy = policy, () => chain.policy = before);
  };
  const removeOne = (line: number, chain: Chain) => {
    if (chain.policy !== undefined) throw new CommandRefused(NO_CHAIN);
    if (chain.rules.length === 0 && chain.references === 0) return drop(chain);
    if (flavour === "nf_tables") {
      refuse(line, "CHAIN_DEL", "Device or resource busy", `chain ${chain.name}`);
    } else throw new CommandRefused(chain.rules.length > 0 ? "Directory not empty" : "Too many links");
  };
  const undo = () => {
    while (undoSteps.length > 0) undoSteps.pop()!();
  };

  return {
    table,
    declare(_line, chain, policy) {
      const known = table.get(chain);
      if (!known) {
        if (policy !== "-" && flavour === "legacy") {
          throw new CommandRefused(`Can't set policy \`${policy}' on \`${chain}'`);
        }
        addChain(chain);
      } else if (known.policy === undefined) empty(known);
      else if (policy !== "-") setPolicyOf(known, policy);
    },
    create(_line, chain) {
      if (table.has(chain)) throw new CommandRefused("Chain already exists");
      addChain(chain);
    },
    flush(_line, chain) {
      if (chain !== undefined) return empty(chainOf(chain));
      for (const each of table.values()) empty(each);
    },
    remove(line, chain) {
      if (chain !== undefined) return removeOne(line, chainOf(chain));
      for (const each of [...table.values()]) if (each.policy === undefined) removeOne(line, each);
    },
    setPolicy(_line, chain, policy) {
      const found = chainOf(chain);
      if (found.policy === undefined) throw new CommandRefused("Bad built-in chain name");
      setPolicyOf(found, policy);
    },
    append(line, chain, rule) {
      const found = chainOf(chain);
      put(line, found, found.rules.length, rule, "RULE_APPEND");
    },
    insert(line, chain, position, rule) {
      const found = chainOf(chain);
      if (position > found.rules.length + 1) throw new CommandRefused("Index of insertion too big");
      put(line, found, position - 1, rule, "RULE_INSERT");
    },
    removeRule(_line, chain, rule) {
      if (typeof rule === "number") {
        const found = chainOf(chain);
        if (rule > found.rules.length) throw new CommandRefused("Index of deletion too big");
        return take(found, rule - 1);
      }
      take(...find(chain, rule));
    },
    check(chain, rule) {
      find(chain, rule);
    },
    clear() {
      for (const chain of table.values()) empty(chain);
      for (const chain of [...table.values()]) {
        if (chain.policy === undefined) drop(chain);
        else if (flavour === "nf_tables") setPolicyOf(chain, "ACCEPT");
      }
    },
    commit() {
      if (refusals.length === 0 && added.length > 0) refusals.push(...refusedRules(table, added));
      if (refusals.length > 0) undo();
      return refusals;
    },
    undo,
  };
}

function checkJump(rule: Rule, table: Table, flavour: Flavour): void {
  if (rule.target.action !== "jump" || table.has(rule.target.chain)) return;
  const { chain } = rule.target;
  if (flavour === "nf_tables") throw new ParameterProblem(`Chain '${chain}' does not exist`);
  throw new ParameterProblem(`Couldn't load target \`${chain}':No such file or directory\n`);
}

/** Throws iptables' error if a chain name is invalid. */
export function checkChainName(chain: string, flavour: Flavour): void {
  const isNft = flavour === "nf_tables";
  if (chain.length > LONGEST_NAME) {
    throw new ParameterProblem(
      isNft
        ? `chain name \`${chain}' too long (must be under ${LONGEST_NAME + 1} chars)`
        : `Invalid chain name \`${chain}' (${LONGEST_NAME} chars max)`,
    );
  }
  if (TARGET_NAMES.includes(chain)) {
    throw new ParameterProblem(
      isNft ? "chain name may not clash with target name" : `error creating chain '${chain}':File exists`,
    );
  }
}
