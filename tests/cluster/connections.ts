/** Connections from pods, nodes and outside, and their expected outcomes. */
import { systemClock } from "../../platform/clock.ts";
import { errorText } from "../../platform/log.ts";
import { waitFor } from "../chaos/wait.ts";
import type { Result } from "../suite.ts";
import { FAMILIES, type Family } from "../../platform/mod.ts";
import type { Addresses } from "./cluster.ts";
import { type Client, dial, hostOf, type Protocol } from "./pods.ts";

/** The expected outcome of connections to a frontend. */
export type Expected =
  | { readonly kind: "answers"; readonly by: readonly string[]; readonly sources: readonly Addresses[] }
  /** All connections of a client reach the same one of the servers. */
  | { readonly kind: "sticks"; readonly sources: readonly Addresses[] }
  | { readonly kind: "refused" }
  /** Accepted, and then reset: by a sidecar, whose own connection was refused. */
  | { readonly kind: "reset" }
  | { readonly kind: "silence" };

/** The addresses from which the sidecar of a service mesh connects to its pod. */
export const SIDECAR: Addresses = { IPv4: "127.0.0.6", IPv6: "::6" };

/** Connections of a client to a frontend, in both families, over TCP and UDP. */
export interface Case {
  readonly name: string;
  readonly client: Client;
  readonly address: Addresses;
  readonly port: Readonly<Record<Protocol, number>>;
  readonly expected: Expected;
}

/** Both of two servers answer one of so many connections, but for a probability of 1 in 30,000. */
const TRIES = 16;
const SERVED_WITHIN_MS = 20_000;

/**
 * Tries all cases; resolves with a result for each, in each family and with each protocol.
 * @param expectedOf the expected outcome of a case with a protocol, if not the case's own
 */
export async function tryAll(
  cases: readonly Case[],
  expectedOf: (one: Case, protocol: Protocol) => Expected = ({ expected }) => expected,
): Promise<readonly Result[]> {
  const all = cases.flatMap((one) =>
    FAMILIES.flatMap((family) =>
      (["tcp", "udp"] as const).map((protocol) => ({
        one: { ...one, expected: expectedOf(one, protocol) },
        family,
        protocol,
      }))
    )
  );
  // Rules appear at once, or with the next sync: the first answer of a frontend may take a moment, the following may not.
  await Promise.all(
    all.filter(({ one }) => one.expected.kind !== "silence").map(({ one, family, protocol }) =>
      waitFor("", SERVED_WITHIN_MS, async () => await failureOf(one, family, protocol) === undefined, 500).catch(
        () => {},
      )
    ),
  );
  return await Promise.all(all.map(async ({ one, family, protocol }) => {
    const startedMs = systemClock.monotonic();
    const failure = await failureOf(one, family, protocol).catch(errorText);
    const name = `${one.name}: ${described(one)} (${family}, ${protocol.toUpperCase()})`;
    if (failure !== undefined) console.log(`FAILED ${name}: ${failure}`);
    return { name, unit: name, passed: failure === undefined, tookMs: systemClock.monotonic() - startedMs };
  }));
}

function described({ client, expected }: Case): string {
  if (expected.kind === "silence") return "no answer";
  if (expected.kind === "refused" || expected.kind === "reset") return "refused";
  const servers = expected.kind === "sticks" ? "one server" : expected.by.length > 1 ? "both servers" : "its server";
  const source = expected.sources.includes(client.addresses)
    ? "the client"
    : expected.sources.includes(SIDECAR)
    ? "the sidecar"
    : "a node";
  return `${servers}, which sees ${source}`.replace("both servers, which sees", "both servers, which see");
}

/** Errors of connections without an answer. A node's own datagram that is refused or dropped cannot be sent: EPERM. */
const ERRORS = {
  refused: /refused|not permitted/,
  reset: /reset by peer|EOF/,
  silence: /timeout|Timeout|not permitted/,
};

/** How a case differs from what is expected; undefined if it does not. */
async function failureOf(one: Case, family: Family, protocol: Protocol): Promise<string | undefined> {
  const { client, address, port, expected } = one;
  const target = { address: address[family], port: port[protocol], protocol };
  if (expected.kind !== "answers" && expected.kind !== "sticks") {
    const { responses, errors } = await dial(client, target, "hostname", 1);
    if (responses.length === 0 && ERRORS[expected.kind].test(errors[0] ?? "")) return undefined;
    return `expected ${expected.kind}: ${[...responses, ...errors].join("; ")}`;
  }
  const names = await dial(client, target, "hostname", TRIES);
  const seen = await dial(client, target, "clientip", TRIES);
  const errors = [...names.errors, ...seen.errors];
  if (errors.length > 0) return `${errors.length} of ${2 * TRIES} connections failed: ${errors[0]}`;
  const by = [...new Set(names.responses)].sort();
  const isRight = expected.kind === "sticks" ? by.length === 1 : by.join() === expected.by.join();
  if (!isRight) return `${by.join(" and ")} answered`;
  const sources = new Set(seen.responses.map(hostOf));
  const unexpected = [...sources].find((source) => !expected.sources.some((addresses) => addresses[family] === source));
  return unexpected === undefined ? undefined : `the server sees ${unexpected}`;
}
