import {
  type Conversation,
  type Runner,
  type ToolCall,
  ToolEndedError,
  ToolMissingError,
  type ToolResult,
} from "../../backends/tools/runner.ts";
import { familyOf } from "../../platform/address.ts";
import { createFakeClock, type FakeClock } from "./clock.ts";
import { type ConntrackEntry, createConntrackTool } from "./iptables/conntrack_tool.ts";
import { everyOutcome } from "./every_outcome.ts";
import { sendThrough } from "./nft_packet.ts";
import type { NftSituation } from "./nft_rules.ts";
import {
  applyStatement,
  copyTables,
  durationMs,
  NftError,
  type NftSet,
  type NftTables,
  printChains,
  printSet,
  printTable,
  timeoutOf,
} from "./nft_tables.ts";
import { type Random, seeded } from "./random.ts";
import { deliverOutput } from "./runner.ts";
import { canonical, DEFAULT_SURROUNDINGS, type PacketHost, type PacketRequest, type Surroundings } from "./packet.ts";

/** Options of `createFakeNftHost`. */
export interface FakeNftHostOptions {
  readonly surroundings?: Partial<Surroundings>;
  /** A number from 0 up to 1, for `send`; repeats with the seed by default. */
  readonly random?: Random;
  /** The clock for the timeouts of set elements; a fake clock by default. */
  readonly clock?: FakeClock;
}

/** A host with an in-memory nft. */
export interface FakeNftHost extends PacketHost {
  readonly runner: Runner;
  /** The current tables; tests may change them as another program would. */
  tables: NftTables;
  /** The statements of every successful transaction. */
  readonly transactions: string[][];
  /** The number of times that the table was listed with its elements. */
  listings: number;
  /** Set by tests: returns the error for a statement that the kernel refuses. */
  refuses: (statement: string) => string | undefined;
  /** Called before each transaction; the run rethrows its errors. */
  onTransaction: () => void;
  /** Called after each successful transaction; the run rethrows its errors. */
  afterTransaction: () => void;
  readonly clock: FakeClock;
  /** Whether another program has a flow table. */
  hasFlowTable: boolean;
  /** The entries of conntrack; tests may add some. */
  readonly conntrack: ConntrackEntry[];
}

/** The protocols as `nft -n` prints them. */
function numeric(text: string): string {
  return text.replace("tcp", "6").replace("udp", "17").replace("sctp", "132");
}

/** Creates a host with an empty kernel and no iptables. */
export function createFakeNftHost(options: FakeNftHostOptions = {}): FakeNftHost {
  const { random = seeded(), clock = createFakeClock() } = options;
  const surroundings: Surroundings = { ...DEFAULT_SURROUNDINGS, ...options.surroundings };
  const conntrack = createConntrackTool();
  const answer = (stdout = "", exitCode = 0, stderr = ""): ToolResult => ({ exitCode, stdout, stderr });

  function nft(call: ToolCall): ToolResult {
    const args = call.args.join(" ");
    if (args === "--version") return answer("nftables v1.0.6 (Lester Gooch #5)\n");
    if (args === "-f -") return transact([...call.stdin!].join("").split("\n").filter((line) => line !== ""));
    if (args === "list flowtables") {
      return answer(host.hasFlowTable ? "table inet offload {\n\tflowtable ft {\n\t}\n}\n" : "");
    }
    const table = /^list table (\S+ \S+)$/.exec(args)?.[1];
    if (table !== undefined) {
      const content = host.tables.get(table);
      if (!content) return answer("", 1, "Error: No such file or directory\n");
      host.listings++;
      return deliverOutput(answer([...printTable(table, content), ""].join("\n")), call);
    }
    if (args === "-n -i") return interactively([...call.stdin!].join("").split("\n").slice(0, -1), call);
    const withSets = /^list sets table (\S+ \S+)$/.exec(args)?.[1];
    if (withSets !== undefined) {
      if (!host.tables.has(withSets)) return answer("", 1, "Error: No such file or directory\n");
      // nft 1.0.6 prints those of all tables of the family.
      const [family] = withSets.split(" ", 1),
        tables = [...host.tables].filter(([name]) => name.startsWith(`${family} `));
      const lines = tables.flatMap(([name, { sets }]) => {
        const printed = [...sets].filter(([, { kind }]) => kind === "set").flatMap((
          [set, content],
        ) => [...printSet(set, content)]);
        return [`table ${name} {`, ...printed, "}"];
      });
      return deliverOutput(answer([...lines, ""].join("\n")), call);
    }
    const terse = /^-t list ruleset (\S+)$/.exec(args)?.[1];
    if (terse !== undefined) {
      const tables = [...host.tables].filter(([name]) => name.startsWith(`${terse} `));
      const isElement = (line: string) => line.startsWith("\t\telements = ") || line.startsWith("\t\t\t");
      const lines = tables.flatMap(([name, table]) => [...printTable(name, table)].filter((line) => !isElement(line)));
      return deliverOutput(answer([...lines, ""].join("\n")), call);
    }
    const [, isNumeric, ofTable, set] = /^(-n )?list (?:set|map) (\S+ \S+) (\S+)$/.exec(args) ?? [];
    if (set !== undefined) {
      const content = host.tables.get(ofTable!)?.sets.get(set);
      if (!content) return answer("", 1, "Error: No such file or directory\n");
      const lines = [`table ${ofTable} {`, ...printSet(set, content), "}", ""];
      const text = lines.join("\n");
      return deliverOutput(answer(isNumeric ? text.replace(/ \. (tcp|udp|sctp) \. /g, numeric) : text), call);
    }
    const [, withCounter, counter] = /^list counter (\S+ \S+) (\S+)$/.exec(args) ?? [];
    if (counter !== undefined) {
      const packets = host.tables.get(withCounter!)?.counters.get(counter);
      if (packets === undefined) return answer("", 1, "Error: No such file or directory\n");
      const printed = `table ${withCounter} {\n\tcounter ${counter} {\n\t\tpackets ${packets} bytes 0\n\t}\n}\n`;
      return deliverOutput(answer(printed), call);
    }
    const family = /^(?:-a )?list (chains|tables) (\S+)$/.exec(args);
    if (!family) throw new Error(`the fake nft does not support ${args}`);
    const lines: string[] = [];
    for (const [name, table] of host.tables) {
      if (!name.startsWith(`${family[2]} `)) continue;
      if (family[1] === "tables") lines.push(`table ${name}`);
      else lines.push(...printChains(name, table));
    }
    return deliverOutput(answer(lines.map((line) => `${line}\n`).join("")), call);
  }

  /** Each line is a call; the exit code tells nothing about them. */
  function interactively(lines: readonly string[], call: ToolCall): ToolResult {
    const results = lines.map((line) => nft({ tool: "nft", args: ["-n", ...line.split(" ")] }));
    const [stdout, stderr] = (["stdout", "stderr"] as const).map((stream) => results.map((each) => each[stream]));
    return deliverOutput(answer(stdout!.join(""), 0, stderr!.join("")), call);
  }

  function transact(statements: string[]): ToolResult {
    host.onTransaction();
    const tables = copyTables(host.tables);
    for (const statement of statements) {
      try {
        const refusal = host.refuses(statement);
        if (refusal !== undefined) throw new NftError(refusal);
        applyStatement(tables, statement, nowMs());
      } catch (error) {
        if (!(error instanceof NftError)) throw error;
        return answer("", 1, `/dev/stdin:1:1-9: Error: ${error.message}\n${statement}\n`);
      }
    }
    host.tables = tables;
    host.transactions.push(statements);
    host.afterTransaction();
    return answer();
  }

  /** An interactive session: each line is a listing or a transaction, and unknown input is repeated in the error. */
  function converse(onLine: ToolCall["onLine"] = () => {}): Conversation {
    let isOpen = true;
    return {
      async ask(text, end) {
        await Promise.resolve();
        if (!isOpen) throw new ToolEndedError("nft");
        const lines = text.split("\n").slice(0, -1);
        if (lines.pop() !== end) throw new Error(`the last line must be ${end}`);
        const errors: string[] = [];
        const run = (line: string) =>
          line.startsWith("list ") ? nft({ tool: "nft", args: line.split(" "), onLine }) : transact(line.split("; "));
        try {
          for (const line of lines) errors.push(run(line).stderr.replace(/^\S+: (?=Error)/, ""));
        } catch (error) {
          isOpen = false;
          throw error;
        }
        return `${errors.join("")}Error: syntax error, unexpected number, expecting string\n`;
      },
      isOpen: () => isOpen,
      close() {
        isOpen = false;
      },
    };
  }

  const nowMs = () => clock.monotonic();
  const counters = new Map<string, number>();
  const sendWith = (
    packet: PacketRequest,
    { chance, count, remember, counted }: Pick<NftSituation, "chance" | "count" | "remember" | "counted">,
  ) => {
    const ip = familyOf(canonical(packet.to)) === "IPv4" ? "ip" : "ip6";
    const send = (
      table = host.tables.get(`${ip} sluice`) ?? { sets: new Map(), chains: new Map(), counters: new Map() },
    ) => sendThrough(table, packet, { surroundings, chance, count, nowMs, remember, counted });
    const sent = send(), resets = host.tables.get(`${ip} sluice-resets`);
    return sent.verdict === "passed" && resets ? send(resets) : sent;
  };
  const nextCount = (rule: string, modulus: number) => {
    const next = ((counters.get(rule) ?? -1) + 1) % modulus;
    counters.set(rule, next);
    return next;
  };
  const keep = (set: NftSet, client: string, timeout?: string) => {
    const lasting = timeout ?? timeoutOf(set);
    if (set.lines.includes("counter")) set.counters.set(client, (set.counters.get(client) ?? 0) + 1);
    set.clients.set(client, lasting === undefined ? Infinity : nowMs() + durationMs(lasting));
  };

  const host: FakeNftHost = {
    send: (packet) =>
      sendWith(packet, {
        ...{ chance: (probability) => random() < probability, count: nextCount, remember: keep },
        counted: (counters, name) => counters.set(name, counters.get(name)! + 1),
      }),
    // A counter may have any value before the packet.
    outcomes: (packet) =>
      everyOutcome((chance) => {
        const count = (_: string, modulus: number) => {
          let drawn = 0;
          while (!chance(1 / (modulus - drawn))) drawn++;
          return drawn;
        };
        const undo: (() => void)[] = [];
        const remember = ({ clients }: NftSet, client: string) => {
          const before = clients.get(client);
          clients.set(client, Infinity);
          undo.unshift(() => before === undefined ? clients.delete(client) : clients.set(client, before));
        };
        try {
          return sendWith(packet, { chance, count, remember, counted: () => {} });
        } finally {
          for (const forget of undo) forget();
        }
      }),
    runner: {
      run(call) {
        if (call.tool === "nft") return Promise.resolve().then(() => nft(call));
        if (call.tool === "conntrack") {
          return Promise.resolve().then(() =>
            deliverOutput(conntrack.run(call.args, [...call.stdin ?? []].join("")), call)
          );
        }
        return Promise.reject(new ToolMissingError(call.tool));
      },
      converse: ({ tool, args, onLine }) => {
        if (tool !== "nft" || args.at(-1) !== "-i") throw new ToolMissingError(tool);
        return converse(onLine);
      },
    },
    tables: new Map(),
    transactions: [],
    listings: 0,
    hasFlowTable: false,
    refuses: () => undefined,
    onTransaction: () => {},
    afterTransaction: () => {},
    clock,
    conntrack: conntrack.entries,
  };
  return host;
}
