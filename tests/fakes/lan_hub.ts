/** A LAN for datagrams in this process, which delays, loses, repeats and replays them. */
import type { Datagrams, OpenDatagrams } from "../../sources/site/datagrams.ts";
import type { Proofs } from "../../sources/site/proof.ts";
import type { Clock } from "../../platform/clock.ts";

/** A LAN. */
export interface LanHub {
  /** Opens the sockets of a host. */
  open(host: string): OpenDatagrams;
  /** Delivers a datagram to every host. */
  deliver(data: Uint8Array): void;
  /** What was sent lately, oldest first. */
  readonly sent: readonly { readonly from: string; readonly data: Uint8Array }[];
  /** Whether nothing arrives. */
  isCut: boolean;
}

/** The longest delay. */
const DELAY_MS = 150;
/** The number of datagrams that may be replayed. */
const KEPT = 500;

/** Creates a LAN. `loss` is the share of datagrams that get lost, and of those that are followed by a replay of an old one. */
export function createLanHub(clock: Clock, random: () => number, loss = 0): LanHub {
  const receivers = new Map<string, (data: Uint8Array) => void>();
  const sent: { readonly from: string; readonly data: Uint8Array }[] = [];
  const hub: LanHub = {
    sent,
    isCut: false,
    deliver: (data) => receivers.forEach((receive) => receive(data)),
    open(host) {
      return (onDatagram) => {
        receivers.set(host, onDatagram);
        const socket: Datagrams = {
          sendToAll(data) {
            if (hub.isCut) return;
            sent.push({ from: host, data });
            if (sent.length > KEPT) sent.shift();
            for (const receive of receivers.values()) {
              if (random() >= loss) clock.schedule(random() * DELAY_MS, () => receive(data));
            }
            if (random() < loss) hub.deliver(sent[Math.floor(random() * sent.length)]!.data);
          },
          close: () => {
            if (receivers.get(host) === onDatagram) receivers.delete(host);
          },
        };
        return Promise.resolve(socket);
      };
    },
  };
  return hub;
}

/** Signatures that anybody could read, but only these nodes make. */
export function fakeProofs(node: string): Proofs {
  const signatureOf = (text: string, name: string) => `${name} ${text.length} ${text.slice(-40)}`;
  return {
    sign: (text) => ({ certificate: node, signature: signatureOf(text, node) }),
    isSigned: (text, name, { certificate, signature }) => certificate === name && signature === signatureOf(text, name),
  };
}
