import { joinHostPort } from "../../../platform/address.ts";
import { PROTOCOL_NUMBERS } from "../packet.ts";
import type { PacketInFlight } from "../iptables/packet.ts";
import type { FakeVirtualServer, IpvsKernel } from "./kernel.ts";

/** The real server for a packet; `refused` if the virtual server has none, undefined if there is no virtual server. */
export type Scheduled = "refused" | { readonly real: string } | undefined;

/** The state that scheduling depends on. */
export interface Scheduling {
  readonly nowMs: () => number;
  /** Decides an event of this probability. */
  readonly chance: (probability: number) => boolean;
  /** Whether persistence records clients, and real servers count connections. */
  readonly remembers: boolean;
}

const OPTIONS: ReadonlyMap<number, string> = new Map([
  [PROTOCOL_NUMBERS.tcp, "-t"],
  [PROTOCOL_NUMBERS.udp, "-u"],
  [PROTOCOL_NUMBERS.sctp, "--sctp-service"],
]);

/**
 * Schedules the first packet of a connection. Real servers get equal shares. A client of a persistent virtual server keeps
 * its real server unless its weight is 0 (expire_quiescent_template).
 */
export function schedule({ servers }: IpvsKernel, packet: PacketInFlight, scheduling: Scheduling): Scheduled {
  const option = OPTIONS.get(packet.protocol);
  const server = servers.get(`${option} ${joinHostPort(packet.destination.text, packet.destinationPort)}`);
  if (!server) return undefined;
  const client = packet.source.text;
  const kept = persistentServer(server, client, scheduling.nowMs());
  const real = kept ?? pick(server, scheduling.chance);
  if (real === undefined) return "refused";
  if (scheduling.remembers) server.reals.get(real)!.connections++;
  if (scheduling.remembers && server.persistentSeconds > 0) {
    server.clients.set(client, { real, untilMs: scheduling.nowMs() + server.persistentSeconds * 1000 });
  }
  return { real };
}

function persistentServer(server: FakeVirtualServer, client: string, nowMs: number): string | undefined {
  const kept = server.persistentSeconds > 0 ? server.clients.get(client) : undefined;
  if (!kept || kept.untilMs <= nowMs) return undefined;
  return (server.reals.get(kept.real)?.weight ?? 0) > 0 ? kept.real : undefined;
}

function pick({ reals, scheduler }: FakeVirtualServer, chance: (probability: number) => boolean): string | undefined {
  const open = [...reals].filter(([, { weight }]) => weight > 0);
  // Round-robin ignores weights.
  const weightOf = (weight: number) => scheduler === "rr" ? 1 : weight;
  let left = open.reduce((sum, [, { weight }]) => sum + weightOf(weight), 0);
  for (const [real, { weight }] of open) {
    if (chance(weightOf(weight) / left)) return real;
    left -= weightOf(weight);
  }
  return undefined;
}
