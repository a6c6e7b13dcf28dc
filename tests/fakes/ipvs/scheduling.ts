import { joinHostPort } from "../../../platform/address.ts";
import { PROTOCOL_NUMBERS } from "../packet.ts";
import type { PacketInFlight } from "../iptables/packet.ts";
import type { FakeVirtualServer, IpvsKernel } from "./kernel.ts";

/** Where IPVS sends a packet: `refused` where the virtual server has nobody, undefined where there is none. */
export type Scheduled = "refused" | { readonly real: string } | undefined;

/** How a packet is scheduled. */
export interface Scheduling {
  readonly nowMs: () => number;
  /** Decides something that happens with this probability. */
  readonly chance: (probability: number) => boolean;
  /** Whether clients are remembered. */
  readonly remembers: boolean;
}

const OPTIONS: ReadonlyMap<number, string> = new Map([
  [PROTOCOL_NUMBERS.tcp, "-t"],
  [PROTOCOL_NUMBERS.udp, "-u"],
  [PROTOCOL_NUMBERS.sctp, "--sctp-service"],
]);

/**
 * What IPVS does with the first packet of a connection. Round robin has equal shares; clients of a virtual server that
 * keeps them stay where they are, unless that real server takes no more (expire_quiescent_template).
 */
export function schedule({ servers }: IpvsKernel, packet: PacketInFlight, scheduling: Scheduling): Scheduled {
  const option = OPTIONS.get(packet.protocol);
  const server = servers.get(`${option} ${joinHostPort(packet.destination.text, packet.destinationPort)}`);
  if (!server) return undefined;
  const client = packet.source.text;
  const kept = keptAt(server, client, scheduling.nowMs());
  const real = kept ?? pick(server, scheduling.chance);
  if (real === undefined) return "refused";
  if (scheduling.remembers && server.persistentSeconds > 0) {
    server.clients.set(client, { real, untilMs: scheduling.nowMs() + server.persistentSeconds * 1000 });
  }
  return { real };
}

function keptAt(server: FakeVirtualServer, client: string, nowMs: number): string | undefined {
  const kept = server.persistentSeconds > 0 ? server.clients.get(client) : undefined;
  if (!kept || kept.untilMs <= nowMs) return undefined;
  return (server.reals.get(kept.real)?.weight ?? 0) > 0 ? kept.real : undefined;
}

function pick({ reals }: FakeVirtualServer, chance: (probability: number) => boolean): string | undefined {
  const open = [...reals].filter(([, { weight }]) => weight > 0).map(([real]) => real);
  return open.find((_, i) => chance(1 / (open.length - i)));
}
