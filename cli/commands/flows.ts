import { boolean, flagValue, option, text } from "../../config/mod.ts";
import {
  canonicalAddress,
  FAMILIES,
  type Family,
  familyOf,
  hostPrefix,
  prefixContains,
  splitHostPort,
} from "../../platform/mod.ts";
import type { ServiceFinder, TracedPackets } from "../flows/mod.ts";
import { answersOf, type Command, isJson, TEXT_OR_JSON, toolRunner, UsageError } from "./command.ts";

const FROM = option("from", text(), "Only connections of this client: an address, or a prefix such as 10.1.0.0/24.");
const DROPS = option("drops", boolean(), "Print dropped and rejected connections instead, with the reason.");

/** Before rules that translate destinations or drop, and after connection tracking (`NF_IP_PRI_MANGLE`). */
const AFTER_CONNTRACK = -150;
const TRACED_PER_SECOND = 500;

/** `sluice flows`: connections to services as they begin and end. */
export const flowsCommand: Command = {
  name: "flows",
  summary: "Print connections to services as they begin and end, live.",
  arguments: [{
    name: "SERVICE",
    description: "only services whose namespace/name:port contains this",
    completes: "service",
  }],
  flags: [FROM, DROPS, ...TEXT_OR_JSON],
  installed: { part: "configuration" },
  startsPrograms: true,
  examples: {
    "sluice flows": "all connections to services through this node",
    "sluice flows default/web --from 10.244.1.7": "those of one client to one service",
    "sluice flows --drops": "dropped and rejected connections, and which rule did it",
  },
  streams: true,
  async start(invocation) {
    const { flags, clock, signal, print } = invocation;
    const from = flagValue(flags, FROM);
    if (from !== undefined && canonicalAddress(from.replace(/\/\d{1,3}$/, "")) === undefined) {
      throw new UsageError(`--from is ${JSON.stringify(from)}: must be an address or a prefix`);
    }
    const prefix = from === undefined || from.includes("/") ? from : hostPrefix(from);
    const [search = ""] = invocation.arguments;
    const show = <Event extends { readonly service: string | undefined; readonly client: string }>(
      event: Event,
      line: (event: Event) => string,
    ) => {
      const client = splitHostPort(event.client).address;
      const isShown = (search === "" || event.service?.includes(search) === true) &&
        (prefix === undefined || familyOf(prefix) === familyOf(client) && prefixContains(prefix, client));
      if (isShown) print(`${isJson(invocation) ? JSON.stringify(event) : line(event)}\n`);
    };
    const { createServiceFinder, dropLine, dropOf, flowLine, markTraced, readFlows, readTraces } = await import(
      "../flows/mod.ts"
    );
    const finder = await createServiceFinder(await answersOf(invocation), clock);
    const runner = await toolRunner(invocation);
    try {
      if (flagValue(flags, DROPS) !== true) {
        await readFlows(runner, finder.find, (flow) => show(flow, flowLine));
        return 0;
      }
      const release = await markTraced(FAMILIES.map((family) => tracedOf(family, finder)), runner);
      try {
        await readTraces(runner, clock, (trace) => {
          const { isDropped, first: { destination, protocol, destinationPort } } = trace;
          if (isDropped) {
            show(dropOf(trace, clock.now(), finder.find(destination, protocol, destinationPort)), dropLine);
          }
        });
      } finally {
        release();
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    return 0;
  },
};

/** The first packets of connections to the services of a family. */
function tracedOf(family: Family, { frontends }: ServiceFinder): TracedPackets {
  const ip = family === "IPv4" ? "ip" : "ip6", { addresses, nodePorts } = frontends(family);
  const limit = `limit rate ${TRACED_PER_SECOND}/second burst ${TRACED_PER_SECOND} packets`;
  return {
    family,
    destinations: addresses,
    priority: AFTER_CONNTRACK,
    matches: [
      ...(addresses.length === 0 ? [] : [`ct state new ${ip} daddr . meta l4proto . th dport @traced ${limit}`]),
      ...(nodePorts.length === 0
        ? []
        : [`ct state new fib daddr type local meta l4proto . th dport { ${nodePorts.join(", ")} } ${limit}`]),
    ],
  };
}
