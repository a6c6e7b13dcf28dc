import { joinHostPort } from "../../platform/address.ts";
import { type NftPacket, type NftSituation, runChain } from "./nft_rules.ts";
import type { NftTable } from "./nft_tables.ts";
import { canonical, isLocal, originOf, type PacketOutcome, type PacketRequest } from "./packet.ts";

/** Sends a packet through a table: hook by hook, and chains by priority. */
export function sendThrough(table: NftTable, request: PacketRequest, situation: NftSituation): PacketOutcome {
  const { address, inInterface } = originOf(request, situation.surroundings);
  const packet: NftPacket = {
    from: address,
    fromPort: request.sourcePort ?? 40_000,
    protocol: request.protocol ?? "tcp",
    isSynAck: request.isSynAck ?? false,
    isTranslated: request.translatedFrom !== undefined || request.isSynAck === true,
    flags: request.flags ?? [],
    state: (request.state ?? "NEW").toLowerCase(),
    inInterface,
    isRepeated: (request.state ?? "NEW") !== "NEW",
    original: request.translatedFrom ?? { to: canonical(request.to), port: request.port },
    to: canonical(request.to),
    port: request.port,
    mark: request.mark ?? 0,
    rewrittenTo: undefined,
    masqueraded: false,
  };
  const end = traverseHooks(packet, situation, (hook) => {
    if (hook === "input" && packet.inInterface === "") packet.inInterface = "lo";
    for (const { name, isNat } of hooked(table, hook)) {
      // nat chains see the first packet of a connection only.
      if (isNat && packet.state !== "new") continue;
      const verdict = runChain(table, name, packet, situation);
      if (verdict === "reject" || verdict === "drop") return verdict;
      if (packet.rewrittenTo !== undefined) rewrite(packet, packet.rewrittenTo);
    }
    return "accept";
  });
  const accepted = packet.rewrittenTo === undefined ? "passed" : "delivered";
  return {
    verdict: end === "accept" ? accepted : end === "drop" ? "dropped" : "rejected",
    destination: joinHostPort(packet.to, packet.port),
    masqueraded: packet.masqueraded,
    mark: packet.mark >>> 0,
  };
}

/** Runs the hooks in the order of the packet's path, which depends on its source and destination. */
function traverseHooks(
  packet: NftPacket,
  { surroundings }: NftSituation,
  hook: (name: string) => "accept" | "reject" | "drop",
): "accept" | "reject" | "drop" {
  const isHere = () => isLocal(packet.to, surroundings);
  const steps = packet.inInterface === ""
    ? ["output", "postrouting", () => isHere() ? "input" : undefined]
    : ["prerouting", () => isHere() ? "input" : "forward", () => isHere() ? undefined : "postrouting"];
  for (const step of steps) {
    const name = typeof step === "string" ? step : step();
    const verdict = name === undefined ? "accept" : hook(name);
    if (verdict !== "accept") return verdict;
  }
  return "accept";
}

function rewrite(packet: NftPacket, target: string): void {
  const [to, port] = target.split(" . ");
  packet.to = to!;
  packet.port = Number(port);
}

const PRIORITIES: Readonly<Record<string, number>> = { dstnat: -100, filter: 0, srcnat: 100 };

function hooked(table: NftTable, hook: string): readonly { readonly name: string; readonly isNat: boolean }[] {
  const found: { name: string; isNat: boolean; priority: number }[] = [];
  for (const [name, chain] of table.chains) {
    const match = /^type (\w+) hook (\w+) priority (-?\w+)(?: ([+-]) (\d+))?;/.exec(chain.hook ?? "");
    if (match?.[2] !== hook) continue;
    const base = PRIORITIES[match[3]!] ?? Number(match[3]);
    const priority = base + (match[4] === "-" ? -1 : 1) * Number(match[5] ?? 0);
    found.push({ name, isNat: match[1] === "nat", priority });
  }
  return found.sort((a, b) => a.priority - b.priority);
}
