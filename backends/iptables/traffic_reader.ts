import {
  collectRows,
  CONNECTIONS,
  type FailureReason,
  type Protocol,
  type ServicePortKey,
  type TrafficRows,
} from "../../core/model/mod.ts";
import { type Clock, joinFlat, joinHostPort, splitHostPort } from "../../platform/mod.ts";
import type { TrafficReader } from "../contract/mod.ts";
import { createOwners, createReadings } from "../traffic/mod.ts";
import {
  type AroundRestore,
  type Flavour,
  type IptablesTools,
  packetsOf,
  type RestoredChain,
  type Table,
} from "../xtables/mod.ts";
import { REFUSAL_COMMENTS } from "./frontends.ts";
import type { Ruleset } from "./ruleset.ts";

/**
 * Reads the native counters of the rules: rules that choose an endpoint count connections, since nat tables see only first
 * packets, and rules that refuse packets count failures. The counters of a chain restart when it is written. If a write changes
 * only a few chains, their counters are read right before; otherwise counts since the last reading are lost.
 */
interface RuleReader extends TrafficReader {
  /** Runs a restore while no reading is under way, and notes that the counters of its chains restart. */
  readonly aroundRestore: AroundRestore;
}

interface TrafficReaderOptions {
  readonly ruleset: Pick<Ruleset, "servicePorts" | "chainOwner">;
  readonly tools: IptablesTools;
  readonly clock: Clock;
  readonly flavour: Flavour;
  /** The tables to read. */
  readonly tables: readonly Table[];
}

/** The maximum number of chains to read before a write: iptables-legacy reads the whole table for each. */
const MOST_READ: Readonly<Record<Flavour, number>> = { nf_tables: 8, legacy: 2 };

/** The packets of the rules of one chain that have matched, by what each rule counts. */
type ChainCounts = Map<string, { readonly of: RuleCount; packets: number }>;

/** Creates a reader whose first reading only notes the counters of an earlier process. */
export function createTrafficReader(
  { ruleset, tools, clock, flavour, tables }: TrafficReaderOptions,
): RuleReader {
  /** By `table chain`, as last read. */
  const known = new Map<string, ChainCounts>();
  const turns = createReadingTurns();
  const owners = createOwners(ruleset), rows = collectRows();

  const ownerOf = (chain: string, of: RuleCount): ServicePortKey | undefined =>
    "endpoint" in of ? ruleset.chainOwner(chain) : owners.find(of.address, of.protocol, of.port);
  const noteChain = (table: Table, chain: string, counts: ChainCounts) => {
    const id = joinFlat(" ", table, chain), before = known.get(id);
    for (const [key, { of, packets }] of counts) {
      const was = before?.get(key)?.packets ?? 0;
      const grown = packets < was ? packets : packets - was;
      if (grown > 0) addRow(rows, ownerOf(chain, of), of, grown);
    }
    if (counts.size > 0) known.set(id, counts);
    else known.delete(id);
  };
  const readChains = async (table: Table, only?: string): Promise<ReadonlySet<string>> => {
    const seen = new Set<string>();
    let chain = "", counts: ChainCounts = new Map();
    const finish = () => {
      if (chain !== "") noteChain(table, chain, counts);
    };
    await tools.list(table, only, (line) => {
      if (!line.startsWith("-A ")) return;
      const name = line.slice(3, line.indexOf(" ", 3));
      if (name !== chain) {
        finish();
        chain = joinFlat("-", ...name.split("-"));
        counts = new Map();
        seen.add(joinFlat(" ", table, chain));
      }
      const packets = packetsOf(line), of = packets > 0 ? countOf(table, line) : undefined;
      if (of === undefined) return;
      const key = keyOf(of), count = counts.get(key);
      // With session affinity, two rules choose the same endpoint.
      if (count === undefined) counts.set(key, { of, packets });
      else count.packets += packets;
    });
    finish();
    return seen;
  };
  const readAll = async () => {
    for (const table of tables) {
      const seen = await readChains(table);
      for (const id of known.keys()) if (id.startsWith(table) && !seen.has(id)) known.delete(id);
    }
  };

  return {
    ...createReadings({ rows, clock, readAll, inTurn: turns.alone }),
    forgetOwners: owners.forget,
    aroundRestore: (chains, restore) =>
      turns.together(async () => {
        const counting = chains.filter((chain) => tables.includes(chain.table) && isCounting(chain));
        if (counting.length <= MOST_READ[flavour]) {
          // A chain that cannot be read is one whose counts are lost.
          for (const { table, chain } of counting) await readChains(table, chain).catch(() => {});
        }
        const isWritten = await restore();
        if (isWritten) { for (const { table, chain } of chains) known.delete(`${table} ${chain}`); }
        return isWritten;
      }),
  };
}

/** Whether a chain in the kernel may have rules that count. */
function isCounting({ table, chain, rules }: RestoredChain): boolean {
  return rules > 0 && (table === "filter" || /^KUBE-SV[CL]-[A-Z2-7]{16}(-\w\w)?$/.test(chain));
}

function keyOf(of: RuleCount): string {
  return "endpoint" in of ? of.endpoint : joinFlat(" ", of.reason, of.address, of.protocol, of.port);
}

function addRow(rows: TrafficRows, owner: ServicePortKey | undefined, of: RuleCount, packets: number): void {
  if (owner === undefined) return;
  if ("endpoint" in of) rows.add(owner, of.endpoint, CONNECTIONS, packets);
  else rows.fail(owner, of.reason, packets);
}

/** Lets readings run alone, and restores together, in the order of their calls. */
function createReadingTurns() {
  let reading: Promise<unknown> = Promise.resolve(), restoring = reading;
  return {
    alone<Result>(read: () => Promise<Result>): Promise<Result> {
      const running = Promise.all([reading, restoring]).then(read);
      reading = running.catch(() => {});
      return running;
    },
    together<Result>(restore: () => Promise<Result>): Promise<Result> {
      const running = reading.then(restore);
      restoring = Promise.allSettled([restoring, running]).then(() => {});
      return running;
    },
  };
}

/** The packets that a rule with a counter counts. */
type RuleCount =
  /** Connections to an endpoint (`address:port`): a nat rule sees the first packet only. */
  | { readonly endpoint: string }
  /** Refused packets of new connections to a frontend; the address of a node port is empty, or begins one of its prefixes. */
  | { readonly reason: FailureReason; readonly address: string; readonly protocol: Protocol; readonly port: string };

const DNAT = " -j DNAT --to-destination ";
const REFUSAL = /^-A \S+ (?:-d (\S+)\/\d+ )?-p (tcp|udp|sctp) .* --dport (\d+) -c /;

/** The packets that a rule counts; undefined if the rule neither chooses an endpoint nor refuses packets. */
function countOf(table: Table, line: string): RuleCount | undefined {
  if (table === "nat") {
    const at = line.lastIndexOf(DNAT);
    if (at < 0) return undefined;
    const { address, port } = splitHostPort(line.slice(at + DNAT.length));
    return { endpoint: joinHostPort(address, port) };
  }
  const reason = REFUSALS.find(([, words]) => line.includes(words))?.[0];
  const [, address = "", protocol, port] = (reason && REFUSAL.exec(line)) ?? [];
  if (reason === undefined || port === undefined) return undefined;
  return { reason, address, protocol: protocol as Protocol, port };
}

const REFUSALS = Object.entries(REFUSAL_COMMENTS) as [keyof typeof REFUSAL_COMMENTS, string][];
