import { frontendsOf, type Protocol, type ServicePort } from "../../core/model/mod.ts";
import { joinFlat, joinHostPort } from "../../platform/mod.ts";
import { type PairFrontend, pairHashes, PROTOCOL_NUMBERS } from "./pair_hash.ts";
import type { SetLister } from "./set_lister.ts";

/** A pair of frontend and endpoint. */
export interface Pair {
  readonly frontend: PairFrontend;
  /** `address:port`. */
  readonly endpoint: string;
}

/** A counter whose pair is wanted. */
export interface UnnamedCounter {
  readonly place: number;
  /** Whether it counts new connections. */
  readonly isConnection: boolean;
}

/** Finds the pairs that hashes stand for. */
export interface PairNames {
  /** The pair of the counter at a place, if it has been learned. */
  find(place: number): Pair | undefined;
  /**
   * Learns pairs: first from the planned service ports, then, for node ports, from the kernel. A hash without a pair is not
   * looked for again, unless it is new or has a new connection.
   * @param wanted by hash; emptied of those that were learned
   */
  learn(wanted: Map<number, UnnamedCounter>): Promise<void>;
  forget(place: number): void;
  /** Looks for all hashes again, because service ports have changed. */
  retry(): void;
}

/** Inputs of `createPairNames`. */
export interface PairNamesOptions {
  readonly servicePorts: () => Iterable<ServicePort>;
  readonly lister: SetLister;
}

/** The protocols by the numbers that nft prints. */
const PROTOCOLS: Readonly<Record<string, Protocol>> = Object.fromEntries(
  Object.entries(PROTOCOL_NUMBERS).map(([name, number]) => [number, name as Protocol]),
);

/** Reads a frontend from the start of a key, as `nft -n` prints it; undefined if services do not have its protocol. */
export function readFrontend(key: string): PairFrontend | undefined {
  const [address, number, port] = key.split(" . ");
  const protocol = PROTOCOLS[number!];
  // A copy, since a part of a line would keep the whole line in memory.
  return protocol && { address: joinFlat("", address!), protocol, port: parseInt(port!) };
}

/** Reads the endpoint from the end of a key. */
function readEndpoint(key: string): string {
  const [, , , address, port] = key.split(" . ");
  return joinHostPort(address!, parseInt(port!));
}

/** Pairs of which none is known. */
export function createPairNames({ servicePorts, lister }: PairNamesOptions): PairNames {
  // By place: 30,000 objects would take twice the memory.
  const frontends: (PairFrontend | undefined)[] = [];
  const endpoints: (string | undefined)[] = [];
  const nameless = new Set<number>();

  const learnPairs = (
    frontend: PairFrontend,
    candidates: Iterable<string>,
    wanted: Map<number, UnnamedCounter>,
  ) => {
    for (const { endpoint, hash } of pairHashes(frontend, candidates)) {
      const counter = wanted.get(hash);
      if (counter === undefined) continue;
      wanted.delete(hash);
      frontends[counter.place] = frontend;
      endpoints[counter.place] = endpoint;
    }
  };
  const learnPlanned = (wanted: Map<number, UnnamedCounter>) => {
    for (const servicePort of servicePorts()) {
      if (wanted.size === 0) return;
      const candidates = new Set([...servicePort.clusterEndpoints, ...servicePort.localEndpoints]);
      for (const { address, port } of frontendsOf(servicePort)) {
        // A node port has the addresses of the node.
        if (address !== "") learnPairs({ address, protocol: servicePort.protocol, port }, candidates, wanted);
      }
    }
  };

  return {
    find(place) {
      const frontend = frontends[place], endpoint = endpoints[place];
      return frontend && endpoint !== undefined ? { frontend, endpoint } : undefined;
    },
    async learn(wanted) {
      for (const [hash, { place, isConnection }] of wanted) {
        if (!isConnection && nameless.has(place)) wanted.delete(hash);
      }
      if (wanted.size > 0) learnPlanned(wanted);
      if (wanted.size === 0) return;
      await lister.list(["count-pairs"], (_, element) => {
        const frontend = readFrontend(element);
        if (frontend) learnPairs(frontend, [readEndpoint(element)], wanted);
      });
      for (const { place } of wanted.values()) nameless.add(place);
    },
    forget(place) {
      frontends[place] = endpoints[place] = undefined;
      nameless.delete(place);
    },
    retry: () => nameless.clear(),
  };
}
