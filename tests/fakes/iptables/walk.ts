import { familyOf, joinHostPort, splitHostPort } from "../../../platform/address.ts";
import {
  interfaceTo,
  originOf,
  type PacketOutcome,
  type PacketRequest,
  PROTOCOL_NUMBERS,
  type Surroundings,
} from "../packet.ts";
import type { MatchContext } from "./matches.ts";
import type { Rule } from "./rule.ts";
import type { Chain, Table, Tables } from "./tables.ts";
import type { Scheduled } from "../ipvs/scheduling.ts";
import { packetAddress, type PacketInFlight } from "./packet.ts";

/** The outcome for a packet, and its path. */
export interface WalkOutcome extends PacketOutcome {
  /** The chains that it entered in order: `nat/PREROUTING`. */
  readonly path: readonly string[];
  /** The number of rules evaluated. */
  readonly rulesEvaluated: number;
}

/** The result of a chain; undefined if the packet reaches its end. */
type Ending = "accept" | "drop" | "reject" | "return" | undefined;

/** The size of each packet. */
const PACKET_BYTES = 60;

/** Sends a packet through a family's tables, hook by hook, as the kernel does. */
export function walk(
  tables: Tables,
  request: PacketRequest,
  surroundings: Surroundings,
  context: MatchContext,
  { schedule = () => undefined, counts = false }: {
    readonly schedule?: (packet: PacketInFlight) => Scheduled;
    /** Whether rules count the packet; false by default. */
    readonly counts?: boolean;
  } = {},
): WalkOutcome {
  const packet = packetOf(request, surroundings);
  const path: string[] = [];
  let rulesEvaluated = 0;

  const matches = (rule: Rule) => {
    rulesEvaluated++;
    const isMatch = rule.tests.every((test) => test(packet, context));
    if (isMatch && counts) {
      rule.counter.packets++;
      rule.counter.bytes += PACKET_BYTES;
    }
    return isMatch;
  };
  const through = (name: string, table: Table, chain: Chain): Ending => {
    path.push(`${name}/${chain.name}`);
    for (const rule of chain.rules) {
      if (!matches(rule)) continue;
      const { target } = rule;
      switch (target.action) {
        case "nothing":
          continue;
        case "jump": {
          const ending = through(name, table, table.get(target.chain)!);
          if (ending !== undefined && ending !== "return") return ending;
          if (!target.returns) return "return";
          continue;
        }
        case "mark":
          packet.mark = ((packet.mark & ~target.mask) ^ target.value) >>> 0;
          continue;
        case "dnat":
          packet.destination = target.address ?? packet.destination;
          packet.destinationPort = target.port ?? packet.destinationPort;
          packet.dnat = true;
          return "accept";
        case "redirect":
          packet.destination = packetAddress(redirectedTo(packet, surroundings));
          packet.destinationPort = target.port ?? packet.destinationPort;
          packet.dnat = true;
          return "accept";
        case "masquerade":
          packet.masqueraded = true;
          return "accept";
        default:
          return target.action;
      }
    }
    return undefined;
  };
  /** Runs a table's chain at a hook; nat chains see only the first packet of a connection. */
  const hook = (name: string, chainName: string): "accept" | "drop" | "reject" => {
    const table = tables.get(name), chain = table?.get(chainName);
    if (!table || !chain || (name === "nat" && packet.state !== "NEW")) return "accept";
    const ending = through(name, table, chain);
    if (ending === "drop" || ending === "reject" || ending === "accept") return ending;
    return chain.policy === "DROP" ? "drop" : "accept";
  };
  const hooks = (...steps: readonly (readonly [table: string, chain: string])[]) => {
    for (const [table, chain] of steps) {
      const ending = hook(table, chain);
      if (ending !== "accept") return ending;
    }
    return "accept";
  };

  const end = traverseHooks(packet, surroundings, context, hooks, schedule);
  const accepted = packet.dnat || packet.virtual ? "delivered" : "passed";
  return {
    verdict: end === "accept" ? accepted : end === "drop" ? "dropped" : "rejected",
    destination: joinHostPort(packet.destination.text, packet.destinationPort),
    masqueraded: packet.masqueraded,
    mark: packet.mark,
    path,
    rulesEvaluated,
  };
}

/** The node's address to which REDIRECT sends a packet; every interface of the node has its first address of the family. */
function redirectedTo({ family, inInterface }: PacketInFlight, { nodeAddresses }: Surroundings): string {
  if (inInterface === "") return family === "IPv4" ? "127.0.0.1" : "::1";
  return nodeAddresses.find((address) => familyOf(address) === family)!;
}

type Hooks = (...steps: readonly (readonly [table: string, chain: string])[]) => "accept" | "drop" | "reject";

/** Runs the hooks in the order of the packet's path, which depends on its source and destination. */
function traverseHooks(
  packet: PacketInFlight,
  surroundings: Surroundings,
  context: MatchContext,
  hooks: Hooks,
  schedule: (packet: PacketInFlight) => Scheduled,
): "accept" | "drop" | "reject" {
  const leaveNode = () => hooks(["mangle", "POSTROUTING"], ["nat", "POSTROUTING"]);
  const enterNode = () => {
    const entered = hooks(["mangle", "INPUT"], ["filter", "INPUT"]);
    return entered === "accept" ? throughIpvs() ?? hooks(["nat", "INPUT"]) : entered;
  };
  /** IPVS intercepts packets to a virtual server after nat, and sends them out like the node's own packets. */
  const throughIpvs = () => {
    const scheduled = schedule(packet);
    if (scheduled === undefined) return undefined;
    if (scheduled === "refused") return "reject";
    const { address, port } = splitHostPort(scheduled.real);
    packet.virtual = { address: packet.destination.text, port: packet.destinationPort };
    packet.destination = packetAddress(address);
    packet.destinationPort = port;
    packet.inInterface = "";
    packet.outInterface = context.isLocal(packet.destination) ? "lo" : interfaceTo(address, surroundings);
    const sent = hooks(["mangle", "OUTPUT"], ["filter", "OUTPUT"]);
    return sent === "accept" ? leaveNode() : sent;
  };
  const route = () => {
    const isLocal = context.isLocal(packet.destination);
    packet.outInterface = isLocal ? "" : interfaceTo(packet.destination.text, surroundings);
    return isLocal;
  };

  if (packet.inInterface !== "") {
    const arrived = hooks(["raw", "PREROUTING"], ["mangle", "PREROUTING"], ["nat", "PREROUTING"]);
    if (arrived !== "accept") return arrived;
    if (route()) return enterNode();
    const forwarded = hooks(["mangle", "FORWARD"], ["filter", "FORWARD"]);
    packet.inInterface = "";
    return forwarded === "accept" ? leaveNode() : forwarded;
  }

  packet.outInterface = context.isLocal(packet.destination) ? "lo" : interfaceTo(packet.destination.text, surroundings);
  const sent = hooks(["raw", "OUTPUT"], ["mangle", "OUTPUT"], ["nat", "OUTPUT"]);
  if (sent !== "accept") return sent;
  const taken = throughIpvs();
  if (taken !== undefined) return taken;
  const isLocal = context.isLocal(packet.destination);
  packet.outInterface = isLocal ? "lo" : interfaceTo(packet.destination.text, surroundings);
  const allowed = hooks(["filter", "OUTPUT"]);
  if (allowed !== "accept") return allowed;
  const left = leaveNode();
  if (left !== "accept" || !isLocal) return left;
  packet.outInterface = "";
  packet.inInterface = "lo";
  return enterNode();
}

function packetOf(request: PacketRequest, surroundings: Surroundings): PacketInFlight {
  const destination = packetAddress(request.to);
  const family = familyOf(destination.text);
  const { address, inInterface } = originOf(request, surroundings);
  return {
    family,
    protocol: PROTOCOL_NUMBERS[request.protocol ?? "tcp"],
    source: packetAddress(address),
    destination,
    sourcePort: request.sourcePort ?? 40_000,
    destinationPort: request.port,
    inInterface,
    outInterface: "",
    mark: request.mark ?? 0,
    state: request.state ?? "NEW",
    dnat: false,
    virtual: undefined,
    masqueraded: false,
  };
}
