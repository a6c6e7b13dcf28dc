import type { Family } from "../../platform/mod.ts";
import type { Runner } from "../../backends/tools/mod.ts";
import { TRACE_TABLE } from "./trace_words.ts";

/** The packets to trace in one family: statements of nft that match them. */
export interface TracedPackets {
  readonly family: Family;
  /** The elements of a set `traced` of destinations, each `address . protocol . port`; none if the match needs no set. */
  readonly destinations: readonly string[];
  readonly matches: readonly string[];
  /** The priority of the chains: a number, before which other rules are not traced. */
  readonly priority: number;
}

const TIMEOUT_MS = 10_000;
const ELEMENTS_PER_LINE = 500;

/**
 * Marks packets to be traced, in a table of its own that belongs to a long-running nft: the kernel deletes the table as
 * soon as that nft ends, even if this program is killed. Returns a function that ends it.
 * @throws if nft or the kernel refuses the table
 */
export async function markTraced(
  traced: readonly TracedPackets[],
  runner: Runner,
): Promise<() => void> {
  const conversation = runner.converse!({ tool: "nft", args: ["-i"] });
  let lines = 0;
  try {
    for (const line of traced.flatMap((each) => [...tableLines(each)])) {
      const end = `end ${++lines}`;
      // nft prints nothing on success. An invalid line, which it repeats in its error, marks the end of the answer.
      const answer = await conversation.ask(`${line}\n${end}\n`, end, TIMEOUT_MS);
      const error = /Error: (.*)/.exec(answer.slice(0, answer.lastIndexOf("Error: ")))?.[1];
      if (error !== undefined) throw new Error(error);
    }
  } catch (error) {
    conversation.close();
    throw new Error("nft cannot trace packets (Linux 5.12 or later is needed)", { cause: error });
  }
  return () => conversation.close();
}

function* tableLines({ family, destinations, matches, priority }: TracedPackets): Generator<string> {
  const ip = family === "IPv4" ? "ip" : "ip6", table = `${ip} ${TRACE_TABLE}${Deno.pid}`;
  yield `add table ${table} { flags owner; }`;
  if (destinations.length > 0) {
    yield `add set ${table} traced { typeof ${ip} daddr . meta l4proto . th dport; }`;
    for (let i = 0; i < destinations.length; i += ELEMENTS_PER_LINE) {
      yield `add element ${table} traced { ${destinations.slice(i, i + ELEMENTS_PER_LINE).join(", ")} }`;
    }
  }
  for (const hook of ["prerouting", "output"]) {
    yield `add chain ${table} ${hook} { type filter hook ${hook} priority ${priority}; policy accept; }`;
    for (const match of matches) yield `add rule ${table} ${hook} ${match} meta nftrace set 1`;
  }
}
