import { boolean, type Flag, option, text } from "../../config/mod.ts";
import { canonicalAddress, FAMILIES, familyOf, hostPrefix, prefixContains, searchPath } from "../../platform/mod.ts";
import type { ServiceFinder } from "../flows/mod.ts";
import { answersOf, type Command, type Invocation, outputFlags, outputOf, usageError } from "./command.ts";

const FROM: Flag = option(
  "from",
  text(),
  "Only connections of this client: an address, or a prefix such as 10.1.0.0/24.",
);
const DROPS = option("drops", boolean(), "Print dropped and rejected connections instead, with the reason.");
const OUTPUT = outputFlags(["text", "json"]);

/** The maximum run time of a tool: a timer takes 31 bits of milliseconds. */
const FOREVER_MS = 2 ** 31 - 1;
/** Before rules that translate destinations or drop, and after connection tracking (`NF_IP_PRI_MANGLE`). */
const AFTER_CONNTRACK = -150;
/** The maximum number of traced packets per second. */
const TRACED_PER_SECOND = 500;

/** `sluice flows`: connections to services as they begin and end. */
export const flowsCommand: Command = {
  name: "flows",
  summary: "Print connections to services as they begin and end, live.",
  arguments: [{
    name: "SERVICE",
    description: "only services whose namespace/name:port contains this",
    required: false,
    completes: "service",
  }],
  flags: [FROM, DROPS, ...OUTPUT.flags],
  installed: { part: "configuration" },
  startsPrograms: true,
  examples: [
    { line: "sluice flows", does: "all connections to services through this node" },
    { line: "sluice flows default/web --from 10.244.1.7", does: "those of one client to one service" },
    { line: "sluice flows --drops", does: "dropped and rejected connections, and which rule did it" },
  ],
  async start(invocation) {
    const { flags, clock } = invocation;
    const from = flags.get(FROM.name) as string | undefined;
    if (from !== undefined && !isAddressOrPrefix(from)) {
      return usageError(`--from is ${JSON.stringify(from)}: must be an address or a prefix`);
    }
    const { createServiceFinder } = await import("../flows/mod.ts");
    const finder = await createServiceFinder(await answersOf(invocation), clock);
    const watch = flags.get(DROPS.name) === true ? watchDrops : watchFlows;
    try {
      await watch(invocation, finder, filterOf(invocation.arguments[0] ?? "", from));
    } catch (error) {
      if (!invocation.signal.aborted) throw error;
    }
    return 0;
  },
};

/** Whether a connection is shown. */
type Filter = (service: string | undefined, client: string) => boolean;

function isAddressOrPrefix(text: string): boolean {
  return canonicalAddress(text.replace(/\/\d{1,3}$/, "")) !== undefined;
}

function filterOf(search: string, from: string | undefined): Filter {
  const prefix = from === undefined || from.includes("/") ? from : hostPrefix(from);
  return (service, client) =>
    (search === "" || service?.includes(search) === true) &&
    (prefix === undefined || familyOf(prefix) === familyOf(client) && prefixContains(prefix, client));
}

async function watchFlows(invocation: Invocation, finder: ServiceFinder, isShown: Filter): Promise<void> {
  const { createProcessRunner, runOrThrow } = await import("../../backends/tools/mod.ts");
  const { CONNTRACK_ARGS, createFlowTracker, flowLine, parseConntrackEvent } = await import("../flows/mod.ts");
  const { clock, signal, print } = invocation;
  const isJson = outputOf(invocation, OUTPUT) === "json";
  const tracker = createFlowTracker(finder.find);
  const onLine = (line: string) => {
    const event = parseConntrackEvent(line);
    const flow = event && tracker.note(event);
    if (event === undefined || flow === undefined || !isShown(flow.service, event.original.source)) return;
    print(`${isJson ? JSON.stringify(flow) : flowLine(flow)}\n`);
  };
  const runner = createProcessRunner({ clock, signal, path: searchPath() });
  await runOrThrow(runner, { tool: "conntrack", args: CONNTRACK_ARGS, onLine, timeoutMs: FOREVER_MS });
}

async function watchDrops(invocation: Invocation, finder: ServiceFinder, isShown: Filter): Promise<void> {
  const { createProcessRunner, runOrThrow } = await import("../../backends/tools/mod.ts");
  const { collectTraces, dropLine, dropOf, markTraced } = await import("../flows/mod.ts");
  const { clock, signal, print } = invocation;
  const isJson = outputOf(invocation, OUTPUT) === "json";
  const collector = collectTraces({
    clock,
    onTrace(trace) {
      const { isDropped, first } = trace;
      if (!isDropped) return;
      const service = finder.find(first.destination, first.protocol, first.destinationPort);
      if (!isShown(service, first.source)) return;
      const drop = dropOf(trace, clock.now(), service);
      print(`${isJson ? JSON.stringify(drop) : dropLine(drop)}\n`);
    },
  });
  const runner = createProcessRunner({ clock, signal, path: searchPath() });
  const limit = `limit rate ${TRACED_PER_SECOND}/second burst ${TRACED_PER_SECOND} packets`;
  const release = await markTraced(
    FAMILIES.map((family) => {
      const ip = family === "IPv4" ? "ip" : "ip6", { addresses, nodePorts } = finder.frontends(family);
      return {
        family,
        destinations: addresses,
        priority: AFTER_CONNTRACK,
        matches: [
          ...(addresses.length === 0 ? [] : [`ct state new ${ip} daddr . meta l4proto . th dport @traced ${limit}`]),
          ...(nodePorts.length === 0 ? [] : [
            `ct state new fib daddr type local meta l4proto . th dport { ${nodePorts.join(", ")} } ${limit}`,
          ]),
        ],
      };
    }),
    runner,
  );
  try {
    const args = ["monitor", "trace"];
    await runOrThrow(runner, { tool: "nft", args, onLine: collector.note, timeoutMs: FOREVER_MS });
  } finally {
    release();
  }
}
