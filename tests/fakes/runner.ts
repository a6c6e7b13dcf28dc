import {
  type Runner,
  type ToolCall,
  ToolMissingError,
  type ToolResult,
  ToolTimeoutError,
} from "../../backends/tools/runner.ts";
import { FAMILIES, type Family, familyOf } from "../../platform/address.ts";
import { type Clock, sleep } from "../../platform/clock.ts";
import { createFakeClock } from "./clock.ts";
import { type ConntrackEntry, createConntrackTool } from "./iptables/conntrack_tool.ts";
import { everyOutcome } from "./every_outcome.ts";
import { createRecentLists, type KeptRecentLists, type RecentLists } from "./iptables/recent.ts";
import { tableLines } from "./iptables/save.ts";
import { createTables, type Flavour, type Table, type Tables } from "./iptables/tables.ts";
import { type Random, seeded } from "./random.ts";
import { runIptables } from "./iptables/tools.ts";
import { walk, type WalkOutcome } from "./iptables/walk.ts";
import { type PacketAddress, packetAddress, type PacketInFlight } from "./iptables/packet.ts";
import { createSysctlTool } from "./iptables/sysctl_tool.ts";
import { createIpvsKernel, hasAddress, type IpvsKernel, isInSet, takesAddress } from "./ipvs/kernel.ts";
import { schedule } from "./ipvs/scheduling.ts";
import { dumpIpvs, isSetUsed, missingSet, runIpvsTool } from "./ipvs/tools.ts";
import { DEFAULT_SURROUNDINGS, isLocal, type PacketHost, type PacketRequest, type Surroundings } from "./packet.ts";

export type { ConntrackEntry, Flavour, PacketRequest, Surroundings };

/** A recorded run of a tool. */
export interface RecordedCall {
  readonly tool: string;
  readonly args: readonly string[];
  /** The whole input. */
  readonly stdin: string;
}

/** An injected failure of a tool. */
export type InjectedFailure =
  & {
    /** Whether the tool does its work before it fails; false by default. */
    readonly afterItsWork?: boolean;
  }
  & (
    | { readonly how: "exits"; readonly exitCode: number; readonly stderr: string }
    /** It prints this and exits with 0. */
    | { readonly how: "prints"; readonly stdout: string }
    /** It hangs until its timeout. */
    | { readonly how: "hangs" }
    | { readonly how: "is missing" }
  );

/** Options of `createFakeRunner`. */
export interface FakeRunnerOptions {
  /** nf_tables by default. */
  readonly flavour?: Flavour;
  readonly surroundings?: Partial<Surroundings>;
  /** The existing sysctls; `net.ipv4.conf.all.route_localnet` is 0 by default. */
  readonly sysctls?: Readonly<Record<string, string | number>>;
  /** A number from 0 up to 1, for `send`; repeats with the seed by default. */
  readonly random?: Random;
  /** Whether the tools and the kernel support IPVS; false by default. */
  readonly hasIpvs?: boolean;
  /** The clock for timeouts and for `recent`; a fake clock by default. */
  readonly clock?: Clock;
}

/** A runner whose tools change an in-memory kernel, which packets can be sent through. */
export interface FakeRunner extends Runner, PacketHost<WalkOutcome> {
  /** Every call so far in order, including those with an injected failure. */
  readonly calls: readonly RecordedCall[];
  forgetCalls(): void;
  /**
   * Makes calls fail. The first matching injection applies.
   * @param matches whether a call fails
   * @param times how often; unlimited by default
   * @returns a function that ends the injection
   */
  inject(matches: (call: RecordedCall) => boolean, failure: InjectedFailure, times?: number): () => void;
  /**
   * The share of packets by destination (`address:port`) for delivered ones, or by verdict for the others. Changes no
   * state.
   */
  destinations(packet: PacketRequest): ReadonlyMap<string, number>;
  /**
   * The rules of both families, or of one, in the format of iptables-save, without empty tables: equal for equal kernels.
   */
  dump(family?: Family): string;
  /** The names of a table's chains in the order of iptables-save; empty if the table does not exist. */
  chains(family: Family, table: string): readonly string[];
  /** A chain's rules without `-A CHAIN `; undefined if the chain does not exist. */
  rules(family: Family, table: string, chain: string): readonly string[] | undefined;
  /** The kernel's IPVS state; tests may change it as another program would. */
  readonly ipvs: IpvsKernel;
  /** The entries of conntrack; tests may add some. */
  readonly conntrack: ConntrackEntry[];
  /** The existing sysctls by dotted name. */
  readonly sysctls: Map<string, string>;
  /** Sysctls that refuse new values. */
  readonly refusingSysctls: Set<string>;
}

interface Host {
  readonly tables: Tables;
  readonly recent: KeptRecentLists;
}

const DEFAULT_TIMEOUT_MS = 60_000;
const DATE = "Thu Jan  1 00:00:00 1970";

/** Creates a runner with an empty kernel. */
export function createFakeRunner(options: FakeRunnerOptions = {}): FakeRunner {
  const { flavour = "nf_tables", random = seeded(), clock = createFakeClock() } = options;
  const surroundings: Surroundings = { ...DEFAULT_SURROUNDINGS, ...options.surroundings };
  const newHost = (): Host => ({ tables: createTables(flavour), recent: createRecentLists(() => clock.monotonic()) });
  const hosts: Readonly<Record<Family, Host>> = { IPv4: newHost(), IPv6: newHost() };
  const ipvs = createIpvsKernel(surroundings.nodeAddresses);
  const conntrack = createConntrackTool();
  const sysctl = createSysctlTool();
  for (const [name, value] of Object.entries(options.sysctls ?? { "net.ipv4.conf.all.route_localnet": 0 })) {
    sysctl.values.set(name, String(value));
  }
  const calls: RecordedCall[] = [];
  const injections: { matches: (call: RecordedCall) => boolean; failure: InjectedFailure; left: number }[] = [];

  const work = (call: RecordedCall): ToolResult => {
    const family = IPTABLES[call.tool];
    if (family !== undefined) {
      const { tables, recent } = hosts[family];
      const refused = missingSet(ipvs, call);
      if (refused) return refused;
      const result = runIptables(tables, { ...call, program: call.tool, family, date: DATE });
      if (!recent.isEmpty) forgetUnused(tables, recent);
      return result;
    }
    if (call.tool === "conntrack") return conntrack.run(call.args, call.stdin);
    if (call.tool === "sysctl") return sysctl.run(call.args);
    const answer = options.hasIpvs &&
      runIpvsTool(ipvs, call, (set) => isSetUsed(set, FAMILIES.map((f) => hosts[f].tables)));
    if (answer) return answer;
    throw new ToolMissingError(call.tool);
  };
  const takeInjection = (call: RecordedCall): InjectedFailure | undefined => {
    const injection = injections.find(({ matches, left }) => left > 0 && matches(call));
    if (injection) injection.left--;
    return injection?.failure;
  };
  const walkWith = (
    packet: PacketRequest,
    chance: (probability: number) => boolean,
    recent: RecentLists,
    remembers: boolean,
  ) => {
    const { tables } = hosts[familyOf(packetAddress(packet.to).text)];
    const isOwn = ({ text }: PacketAddress) => isLocal(text, surroundings) || takesAddress(ipvs, text);
    // For an address of the dummy interface, the node's source address is that address.
    const own = hasAddress(ipvs, packetAddress(packet.to).text) ? [packet.to] : [];
    const around = { ...surroundings, nodeAddresses: [...surroundings.nodeAddresses, ...own] };
    const context = {
      isLocal: isOwn,
      chance,
      recent,
      isInSet: (set: string, inFlight: PacketInFlight, sides: readonly string[]) => isInSet(ipvs, set, inFlight, sides),
    };
    const nowMs = () => clock.monotonic();
    return walk(tables, packet, around, context, {
      schedule: (inFlight) => schedule(ipvs, inFlight, { nowMs, chance, remembers }),
      counts: remembers,
    });
  };
  const outcomes = (packet: PacketRequest) => {
    const { recent } = hosts[familyOf(packetAddress(packet.to).text)];
    return everyOutcome((chance) => walkWith(packet, chance, recent.trial(), false));
  };

  return {
    calls,
    async run(toolCall: ToolCall) {
      const call = { tool: toolCall.tool, args: [...toolCall.args], stdin: [...toolCall.stdin ?? []].join("") };
      calls.push(call);
      // Like a real tool, never finish synchronously.
      await Promise.resolve();
      const failure = takeInjection(call);
      const result = failure && !failure.afterItsWork ? undefined : work(call);
      if (failure) return await fail(toolCall, failure, clock);
      return deliverOutput(result!, toolCall);
    },
    forgetCalls() {
      calls.length = 0;
    },
    inject(matches, failure, times = Infinity) {
      const injection = { matches, failure, left: times };
      injections.push(injection);
      return () => {
        injection.left = 0;
      };
    },
    send(packet) {
      const { recent } = hosts[familyOf(packetAddress(packet.to).text)];
      return walkWith(packet, (probability) => random() < probability, recent, true);
    },
    outcomes,
    destinations(packet) {
      const shares = new Map<string, number>();
      for (const { outcome: { verdict, destination }, share } of outcomes(packet)) {
        const key = verdict === "delivered" ? destination : verdict;
        shares.set(key, (shares.get(key) ?? 0) + share);
      }
      return shares;
    },
    dump(only) {
      const lines: string[] = [];
      for (const family of FAMILIES) {
        if (only !== undefined && family !== only) continue;
        for (const [name, table] of hosts[family].tables.list()) {
          if (!isUntouched(table)) lines.push(`# ${family}`, ...tableLines(name, table));
        }
      }
      lines.push(...dumpIpvs(ipvs, only));
      return lines.join("\n");
    },
    chains(family, table) {
      const found = hosts[family].tables.get(table);
      if (!found) return [];
      return [...tableLines(table, found)].filter((line) => line.startsWith(":")).map((line) =>
        line.slice(1, line.indexOf(" "))
      );
    },
    rules: (family, table, chain) => hosts[family].tables.get(table)?.get(chain)?.rules.map(({ text }) => text),
    ipvs,
    conntrack: conntrack.entries,
    sysctls: sysctl.values,
    refusingSysctls: sysctl.refusing,
  };
}

const IPTABLES: Readonly<Record<string, Family>> = {
  "iptables": "IPv4",
  "iptables-save": "IPv4",
  "iptables-restore": "IPv4",
  "ip6tables": "IPv6",
  "ip6tables-save": "IPv6",
  "ip6tables-restore": "IPv6",
};

async function fail(call: ToolCall, failure: InjectedFailure, clock: Clock): Promise<ToolResult> {
  switch (failure.how) {
    case "is missing":
      throw new ToolMissingError(call.tool);
    case "hangs": {
      const timeoutMs = call.timeoutMs ?? DEFAULT_TIMEOUT_MS;
      await sleep(clock, timeoutMs);
      throw new ToolTimeoutError(call.tool, timeoutMs);
    }
    case "exits":
      return { exitCode: failure.exitCode, stdout: "", stderr: failure.stderr };
    case "prints":
      return deliverOutput({ exitCode: 0, stdout: failure.stdout, stderr: "" }, call);
  }
}

/** Delivers the output line by line if the caller wants lines, or as a whole. */
export function deliverOutput(result: ToolResult, { onLine }: ToolCall): ToolResult {
  if (!onLine) return result;
  const lines = result.stdout.split("\n");
  if (lines.at(-1) === "") lines.pop();
  for (const line of lines) onLine(line);
  return { ...result, stdout: "" };
}

/** Deletes `recent` lists that no rule uses any more, as the kernel does. */
function forgetUnused(tables: Tables, recent: KeptRecentLists): void {
  const used = new Set<string>();
  for (const [, table] of tables.list()) {
    for (const { rules } of table.values()) {
      for (const { recentLists } of rules) recentLists.forEach((list) => used.add(list));
    }
  }
  recent.forget((list) => !used.has(list));
}

function isUntouched(table: Table): boolean {
  for (const { policy, rules } of table.values()) if (policy !== "ACCEPT" || rules.length > 0) return false;
  return true;
}
