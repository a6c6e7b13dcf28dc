/** `sluice explain --trace`: the next real connection, rule by rule. */
import type { Answers, Question } from "../../answers/mod.ts";
import { createProcessRunner, runOrThrow } from "../../backends/tools/mod.ts";
import { endpointText } from "../../answers/mod.ts";
import { FAMILIES, familyOf, searchPath, writeToStderr } from "../../platform/mod.ts";
import { collectTraces, createServiceFinder, markTraced, pathLines, type Trace } from "../flows/mod.ts";
import { type Invocation, jsonText } from "./command.ts";

/** The connections to trace. */
interface TraceRequest {
  readonly answers: Pick<Answers, "state">;
  /** The destinations; the first connection to any of them is traced. */
  readonly questions: readonly Question[];
  readonly timeoutMs: number;
  readonly isJson: boolean;
}

/** Before connection tracking and the table `raw`, so that rules there are traced, too. */
const FIRST = -301;

/** Waits for a connection and prints its path. Returns 1 on timeout. */
export async function traceConnection(invocation: Invocation, request: TraceRequest): Promise<0 | 1> {
  const { clock, signal, print, configuration } = invocation;
  const { questions, answers, timeoutMs, isJson } = request;
  const finder = await createServiceFinder(answers, clock);
  const ending = new AbortController();
  const runner = createProcessRunner({ clock, signal: AbortSignal.any([signal, ending.signal]), path: searchPath() });
  const note = await limitsOf(configuration.mode, runner);
  if (note !== undefined) writeToStderr(`sluice: ${note}\n`);
  let found: Trace | undefined;
  const end = (trace?: Trace) => {
    found ??= trace;
    ending.abort();
  };
  const collector = collectTraces({ clock, onTrace: end });
  const release = await markTraced(
    FAMILIES.filter((family) => questions.some(({ address }) => familyOf(address) === family)).map((family) => ({
      family,
      destinations: [],
      priority: FIRST,
      matches: questions.filter(({ address }) => familyOf(address) === family).map(matchOf),
    })),
    runner,
  );
  const targets = questions.map(({ address, port, protocol }) => endpointText(address, port, protocol)).join(", ");
  writeToStderr(`sluice: waiting for a connection to ${targets}\n`);
  const cancel = clock.schedule(timeoutMs, () => end());
  try {
    await runOrThrow(runner, {
      tool: "nft",
      args: ["monitor", "trace"],
      onLine: collector.note,
      timeoutMs: 2 ** 31 - 1,
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
  if (isJson) print(jsonText({ service, ...found }));
  else print(pathLines(found, service).map((line) => `${line}\n`).join(""));
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
async function limitsOf(mode: string, runner: ReturnType<typeof createProcessRunner>): Promise<string | undefined> {
  if (mode === "nftables") return undefined;
  const version = await runner.run({ tool: "iptables", args: ["--version"] }).catch(() => undefined);
  if (version?.stdout.includes("legacy")) {
    return "this host's iptables is the legacy variant, whose rules nft cannot trace: only rules of nftables are shown";
  }
  return mode === "ipvs"
    ? "IPVS chooses the endpoint after the rules of prerouting, and no trace shows its choice"
    : undefined;
}
