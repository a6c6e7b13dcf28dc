/** `sluice explain --trace`: the next real connection, rule by rule. */
import type { Runner } from "../../backends/tools/mod.ts";
import { type Answers, endpointText, type Question } from "../../answers/mod.ts";
import { FAMILIES, type Family, familyOf, writeToStderr } from "../../platform/mod.ts";
import { createServiceFinder, markTraced, pathLines, readTraces, type Trace } from "../flows/mod.ts";
import { type Invocation, linesText, printAs, toolRunner } from "./command.ts";

/** Before connection tracking and the table `raw`, so that rules there are traced, too. */
const FIRST = -301;

/** Waits for a connection to any of the destinations and prints its path. Returns 1 on timeout. */
export async function traceConnection(
  invocation: Invocation,
  answers: Pick<Answers, "state">,
  questions: readonly Question[],
  timeoutMs: number,
): Promise<0 | 1> {
  const { clock, signal, configuration } = invocation;
  const finder = await createServiceFinder(answers, clock);
  const ending = new AbortController();
  const runner = await toolRunner({ clock, signal: AbortSignal.any([signal, ending.signal]) });
  const note = await limitsOf(configuration.mode, runner);
  if (note !== undefined) writeToStderr(`sluice: ${note}\n`);
  const ofFamily = (one: Family) => questions.filter(({ address }) => familyOf(address) === one);
  const traced = FAMILIES.filter((family) => ofFamily(family).length > 0)
    .map((family) => ({ family, destinations: [], priority: FIRST, matches: ofFamily(family).map(matchOf) }));
  const release = await markTraced(traced, runner);
  const targets = questions.map(({ address, port, protocol }) => endpointText(address, port, protocol)).join(", ");
  writeToStderr(`sluice: waiting for a connection to ${targets}\n`);
  const cancel = clock.schedule(timeoutMs, () => ending.abort());
  let found: Trace | undefined;
  try {
    await readTraces(runner, clock, (trace) => {
      found ??= trace;
      ending.abort();
    });
  } catch (error) {
    if (!ending.signal.aborted && !signal.aborted) throw error;
  } finally {
    cancel();
    release();
  }
  if (found === undefined) {
    writeToStderr(`sluice: no connection to ${targets} within ${timeoutMs / 1000} s\n`);
    return 1;
  }
  const { destination, protocol, destinationPort } = found.first;
  const service = finder.find(destination, protocol, destinationPort);
  const path = pathLines(found, service);
  printAs(invocation, { service, ...found }, () => linesText(path));
  return 0;
}

/** Matches the first packets of connections to a destination, limited to a few per second. */
function matchOf({ address, port, protocol, from }: Question): string {
  const ip = familyOf(address) === "IPv4" ? "ip" : "ip6";
  const client = from !== undefined && /[.:]/.test(from) ? `${ip} saddr ${from} ` : "";
  const first = protocol === "tcp" ? " tcp flags & (syn | ack) == syn" : "";
  return `${client}${ip} daddr ${address} ${protocol} dport ${port}${first} limit rate 5/second`;
}

/** The limits of a trace in this mode and on this host; undefined if it shows every rule. */
async function limitsOf(mode: string, runner: Runner): Promise<string | undefined> {
  if (mode === "nftables") return undefined;
  const version = await runner.run({ tool: "iptables", args: ["--version"] }).catch(() => undefined);
  if (version?.stdout.includes("legacy")) {
    return "this host's iptables is the legacy variant, whose rules nft cannot trace: only rules of nftables are shown";
  }
  return mode === "ipvs"
    ? "IPVS chooses the endpoint after the rules of prerouting, and no trace shows its choice"
    : undefined;
}
